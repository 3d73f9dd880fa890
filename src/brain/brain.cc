#include "pons/brain/brain.h"

#include <unistd.h>

#include <optional>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/linux/run_task.h"
#include "pons/supervisor/role_runtime.h"
#include "routes.h"

namespace pons::brain {

namespace {

// Below the role's own folder, which is its working directory.
constexpr const char* kStoreFile = "pons.db";

Task<Result<std::vector<ApiKey>>> prepare(Memory& memory) {
  CO_TRY_VOID(co_await memory.projects.ensure_default());
  co_return co_await memory.keys.active();
}

Result<int> run(roles::RoleStart start) {
  const std::string shown = store_path(start.confinement.state_dir);
  const auto runtime = TRY(supervisor::RoleRuntime::create(std::move(start)));
  unlink(kBackupFile);  // of a process that was killed while it made one
  const SystemClock clock;
  const auto store =
      TRY(store::SqliteStore::open(runtime->loop(), {.path = kStoreFile, .shown = shown}));
  Memory memory{.store = *store, .clock = clock};
  const auto keys = TRY(linux::run_to_end(runtime->loop(), prepare(memory)));
  KeyFeed feed(runtime->loop(), keys);
  runtime->add_routes(front_routes(memory, feed));
  runtime->add_routes(operator_routes(memory, feed));
  return runtime->run();
}

}  // namespace

std::string store_path(const std::string& state_dir) {
  return fmt::format("{}/{}/{}", state_dir, roles::name_of(roles::Role::kBrain), kStoreFile);
}

int run_brain(roles::RoleStart start) {
  const auto ended = run(std::move(start));
  if (ended) return *ended;
  LOG_ERROR("cannot start", {"error", ended.error()});
  return 1;
}

}  // namespace pons::brain
