#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "pons/base/text.h"
#include "pons/http/client.h"
#include "pons/http/error_status.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/store/store_file.h"
#include "pons/supervisor/supervisor.h"
#include "progress_bar.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr const char* kStep = "back up";
constexpr std::size_t kRefusalBytesMax = 64 * 1024;

Task<Result<void>> fetch(http::Client& client, int file) {
  ProgressBar bar("backup");
  bar.show({.what = "making a copy"});
  CO_TRY(auto response, co_await client.send({.target = "/backup"}));
  if (response.status() != 200) {
    CO_TRY(const std::string body, co_await response.read_whole_body(kRefusalBytesMax));
    co_return http::error_of(kStep, response.status(), body);
  }
  const std::uint64_t total =
      parse_decimal(response.find("Content-Length").value_or("")).value_or(0);
  for (std::uint64_t done = 0;;) {
    CO_TRY(const std::string_view piece, co_await response.read_body());
    if (piece.empty()) co_return {};
    CO_TRY_VOID(linux::write_all(file, piece));
    done += piece.size();
    bar.show({.what = "fetching it", .done = done, .total = total});
  }
}

Result<void> download(const std::string& state_dir, const std::string& to) {
  const auto file = TRY(linux::open_file(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  auto loop = TRY(linux::Loop::create());
  http::Client client(
      *loop, http::unix_connector(*loop, supervisor::control_socket_path(state_dir, "brain")),
      "pons", {.first_byte_time = std::chrono::minutes(11)});  // a little more than the brain's own
  TRY_VOID(linux::run_to_end(*loop, fetch(client, file.get())));
  if (fsync(file.get()) != 0) return os_error(kStep, to);
  return {};
}

Error exists_already(const std::string& file) {
  return make_error(ErrorCode::kConflict, kStep,
                    file + " exists already; choose a name that does not");
}

// Under a name of its own until it is known to be whole.
Result<int> back_up(const std::string& state_dir, const Common& common, const std::string& file) {
  if (access(file.c_str(), F_OK) == 0) return exists_already(file);
  TRY(ask(state_dir, "brain", "GET", "/healthz"));  // says what to do when Pons is not running
  const std::string partial = file + ".partial";
  const auto whole = [&]() -> Result<store::StoreFileInfo> {
    TRY_VOID(download(state_dir, partial));
    const auto info = TRY(store::check_store_file(partial));
    if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) != 0)
      return errno == EEXIST ? exists_already(file) : os_error(kStep, file);
    const auto folder = std::filesystem::path(file).parent_path();
    TRY_VOID(linux::sync_directory(folder.empty() ? "." : folder.string()));
    return info;
  }();
  if (!whole) {
    unlink(partial.c_str());
    return whole.error();
  }
  if (common.json)
    fmt::print("{}\n", dump_json({{"file", file}, {"bytes", whole->bytes}}));
  else
    fmt::print("{}: {}, checked\n", printable(file), human_bytes(whole->bytes));
  return 0;
}

}  // namespace

void add_backup(CLI::App& app, Common& common, int& exit_code) {
  const auto file = std::make_shared<std::string>();
  add_state_command(app, common, exit_code, "backup", "Copy the store of a running Pons to a file",
                    "The copy is of one moment, and is checked. Pons goes on meanwhile.\n"
                    "It holds projects, hashes of keys and records of sandboxes; credentials of "
                    "the vault are not in it.",
                    Prints::kData,
                    [&common, file](const std::string& dir) { return back_up(dir, common, *file); })
      ->add_option("file", *file, "Where to; must not exist")
      ->required();
}

}  // namespace pons::cli
