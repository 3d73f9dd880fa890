#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "pons/brain/brain.h"
#include "pons/roles/profile.h"
#include "pons/store/store_file.h"
#include "pons/supervisor/supervisor.h"
#include "terminal.h"

namespace pons::cli {

namespace {

Result<int> restore(const std::string& state_dir, const Common& common, const std::string& file) {
  // First, so that a wrong file is told before anything is made or locked.
  const auto info = TRY(store::check_store_file(file));
  const auto lock = TRY(supervisor::hold_state_dir(state_dir));
  const uid_t owner = geteuid() == 0 ? roles::uid_of(roles::Role::kBrain) : geteuid();
  const std::string kept =
      TRY(store::restore_store_file(file, brain::store_path(state_dir), owner));
  if (common.json) {
    fmt::print("{}\n", dump_json({{"restored", file}, {"bytes", info.bytes}, {"kept", kept}}));
    return 0;
  }
  fmt::print("restored {}\n", printable(file));
  if (!kept.empty()) fmt::print("the store that was there is now {}\n", printable(kept));
  return 0;
}

}  // namespace

void add_restore(CLI::App& app, Common& common, int& exit_code) {
  const auto file = std::make_shared<std::string>();
  add_state_command(app, common, exit_code, "restore", "Put a backup in the place of the store",
                    "Pons must not be running. The backup is checked first; the store that is "
                    "there is kept under another name.\nKeys that were revoked after the backup "
                    "are good again.",
                    Prints::kData,
                    [&common, file](const std::string& dir) { return restore(dir, common, *file); })
      ->add_option("file", *file, "A file that `pons backup` made")
      ->required();
}

}  // namespace pons::cli
