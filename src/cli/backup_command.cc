#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backup_files.h"
#include "command.h"
#include "file_words.h"
#include "new_file.h"
#include "pons/base/text.h"
#include "pons/http/client.h"
#include "pons/http/error_status.h"
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

Result<void> download(const std::string& state_dir, const char* role, const NewFile& to) {
  const auto file = TRY(to.open());
  auto loop = TRY(linux::Loop::create());
  http::Client client(
      *loop, http::unix_connector(*loop, supervisor::control_socket_path(state_dir, role)), "pons",
      {.first_byte_time = std::chrono::minutes(11)});  // a little more than the role's own
  TRY_VOID(linux::run_to_end(*loop, fetch(client, file.get())));
  if (fsync(file.get()) != 0) return os_error(kStep, to.partial());
  return {};
}

// A copy of one role's store, under a name of its own until all copies are known to be whole.
class Copy {
 public:
  Copy(const char* role, std::string file) : role_(role), file_(std::move(file)) {}

  Result<void> make(const std::string& state_dir) {
    TRY_VOID(download(state_dir, role_, file_));
    bytes_ = TRY(store::check_store_file(file_.partial())).bytes;
    return {};
  }
  Result<void> name() { return file_.name(); }

  const std::string& file() const { return file_.file(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  const char* role_;
  NewFile file_;
  std::uint64_t bytes_ = 0;
};

Result<int> back_up(const std::string& state_dir, const Common& common, const std::string& file) {
  Copy brain("brain", file);
  Copy models("gateway", models_file_of(file));
  for (const Copy* copy : {&brain, &models})
    if (access(copy->file().c_str(), F_OK) == 0) return exists_already(copy->file());
  TRY(ask(state_dir, "brain", "GET", "/healthz"));  // says what to do when Pons is not running
  TRY_VOID(brain.make(state_dir));
  TRY_VOID(models.make(state_dir));
  // The name that was asked for comes last: where it stands, the other one does.
  TRY_VOID(models.name());
  TRY_VOID(brain.name());
  if (common.json) {
    fmt::print("{}\n", dump_json({{"file", file},
                                  {"bytes", brain.bytes()},
                                  {"models_file", models.file()},
                                  {"models_bytes", models.bytes()}}));
    return 0;
  }
  for (const Copy* copy : {&brain, &models})
    fmt::print("{}: {}, checked\n", printable(copy->file()), human_bytes(copy->bytes()));
  return 0;
}

}  // namespace

void add_backup(CLI::App& app, Common& common, int& exit_code) {
  const auto file = std::make_shared<std::string>();
  add_state_command(app, common, exit_code, "backup", "Copy the stores of a running Pons to a file",
                    "Each copy is of one moment, and is checked. Pons goes on meanwhile.\n"
                    "FILE holds projects, hashes of keys, sessions and records of sandboxes; "
                    "FILE.models beside it\nkeys for models and what was spent on them. "
                    "Credentials of the vault are in neither.",
                    Prints::kData,
                    [&common, file](const std::string& dir) { return back_up(dir, common, *file); })
      ->add_option("file", *file, "Where to; must not exist")
      ->type_name(kFile)
      ->required();
}

}  // namespace pons::cli
