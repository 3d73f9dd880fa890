#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backup_files.h"
#include "command.h"
#include "file_words.h"
#include "pons/brain/brain.h"
#include "pons/gateway/gateway.h"
#include "pons/roles/profile.h"
#include "pons/store/store_file.h"
#include "pons/supervisor/supervisor.h"
#include "terminal.h"

namespace pons::cli {

namespace {

uid_t owner_of(roles::Role role) {
  return geteuid() == 0 ? roles::uid_of(role) : geteuid();
}

// What is put there would be looked at by nobody.
Result<void> refuse_with_postgres(const Common& common) {
  const auto loaded = load_config(common);
  if (!loaded || loaded->config.store.postgres.empty()) return {};
  return make_error(
      ErrorCode::kUnsupported, "restore",
      "store.postgres is set: everything is in PostgreSQL, and is restored there "
      "(pg_restore). To go on from this file instead, restore it with a configuration "
      "without store.postgres, then `pons migrate` it to an empty database");
}

Result<int> restore(const std::string& state_dir, const Common& common, const std::string& file) {
  TRY_VOID(refuse_with_postgres(common));
  const std::string models = models_file_of(file);
  const bool has_models = access(models.c_str(), F_OK) == 0;
  // First, so that a wrong file is told before anything is made or locked.
  const auto info = TRY(store::check_store_file(file));
  if (has_models) TRY(store::check_store_file(models));
  const auto lock = TRY(supervisor::hold_state_dir(state_dir));
  const std::string kept = TRY(
      store::restore_store_file(file, brain::store_path(state_dir), owner_of(roles::Role::kBrain)));
  std::string kept_models;
  if (has_models)
    kept_models = TRY(store::restore_store_file(models, gateway::store_path(state_dir),
                                                owner_of(roles::Role::kGateway)));
  if (common.json) {
    fmt::print("{}\n", dump_json({{"restored", file},
                                  {"bytes", info.bytes},
                                  {"kept", kept},
                                  {"restored_models", has_models ? Json(models) : Json(nullptr)},
                                  {"kept_models", kept_models}}));
    return 0;
  }
  fmt::print("restored {}\n", printable(file));
  if (has_models) fmt::print("restored {}\n", printable(models));
  for (const std::string& aside : {kept, kept_models})
    if (!aside.empty()) fmt::print("the store that was there is now {}\n", printable(aside));
  if (!has_models)
    print_warning(fmt::format(
        "there is no {}: keys for models and what was spent on them stay as they are", models));
  return 0;
}

}  // namespace

void add_restore(CLI::App& app, Common& common, int& exit_code) {
  const auto file = std::make_shared<std::string>();
  add_state_command(app, common, exit_code, "restore", "Put a backup in the place of the stores",
                    "Pons must not be running. The backup (FILE, and FILE.models beside it) is "
                    "checked first; the stores that are\nthere are kept under other names. Keys "
                    "that were revoked after the backup are good again.",
                    Prints::kData,
                    [&common, file](const std::string& dir) { return restore(dir, common, *file); })
      ->add_option("file", *file, "A file that `pons backup` made")
      ->type_name(kFile)
      ->required();
}

}  // namespace pons::cli
