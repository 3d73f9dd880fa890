#include "migrate_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/brain/brain.h"
#include "pons/brain/copied_store.h"
#include "pons/database/address.h"
#include "pons/database/direct.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/store/copy_store.h"
#include "pons/store/postgres_store.h"
#include "pons/store/sqlite_store.h"
#include "pons/supervisor/supervisor.h"
#include "progress_bar.h"
#include "secret_input.h"
#include "store_settings.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string to;
  std::string from;
  std::string password_file;
  std::string authority_file;
  bool asks_password = false;
};

// As the brain's, and a page of a table at once.
constexpr store::StoreLimits kLimits{.queued_bytes = 512ULL << 20,
                                     .value_bytes = 16ULL << 20,
                                     .transaction_bytes = 64ULL << 20,
                                     .answer_time = std::chrono::minutes(10),
                                     .read_time = std::chrono::minutes(10)};

// What is needed to be let in.
struct Entry {
  database::Address address;
  Secret password;
  std::string authority_file;
};

Result<Entry> entry_of(const Common& common, const Words& words) {
  auto loaded = load_config(common);
  if (!loaded) return make_error(ErrorCode::kInvalid, "migrate", "the configuration is not usable");
  config::StoreConfig& store = loaded->config.store;
  auto address = database::Address::parse(words.to.empty() ? words.from : words.to);
  if (!address) return make_error(ErrorCode::kInvalid, "migrate", address.error().message);
  if (!words.password_file.empty()) {
    store.password_file = words.password_file;
    store.password_env.clear();
  }
  Secret password = words.asks_password ? TRY(read_secret("Password of the database: "))
                                        : TRY(read_password(store));
  return Entry{
      .address = std::move(*address),
      .password = std::move(password),
      .authority_file = words.authority_file.empty() ? store.authority_file : words.authority_file};
}

// The file belongs to the brain, and so does everything that SQLite puts beside it: opened by root,
// it could not be opened by the brain afterwards.
Result<std::unique_ptr<store::SqliteStore>> open_as_owner(linux::Loop& loop,
                                                          const std::string& file) {
  struct stat folder{};
  if (stat(std::filesystem::path(file).parent_path().c_str(), &folder) != 0)
    return os_error("migrate", file);
  const bool changes_user = geteuid() == 0 && folder.st_uid != 0;
  if (changes_user && (setegid(folder.st_gid) != 0 || seteuid(folder.st_uid) != 0))
    return os_error("become the brain's user");
  auto opened = store::SqliteStore::open(loop, {.path = file, .shown = file, .limits = kLimits});
  if (changes_user && (seteuid(0) != 0 || setegid(0) != 0)) return os_error("become root again");
  return opened;
}

Task<Result<std::vector<store::CopiedTable>>> copy(linux::Loop& loop,
                                                   database::DirectDatabase& direct,
                                                   store::SqliteStore& file, bool is_back) {
  store::PostgresOptions options{
      .open = [&direct](TimePoint deadline) { return direct.open(deadline); },
      .shown = direct.shown(),
      .limits = kLimits,
      .is_alone = true};
  CO_TRY(const auto database, co_await store::PostgresStore::open(loop, std::move(options)));
  ProgressBar bar("migrate");
  store::CopyOptions copying{.on_progress =
                                 [&](const store::CopyProgress& progress) {
                                   bar.show({.what = progress.what,
                                             .done = static_cast<std::uint64_t>(progress.done),
                                             .total = static_cast<std::uint64_t>(progress.total)});
                                 },
                             .finish = brain::finish_copied_store};
  if (is_back) co_return co_await store::copy_store(*database, file, std::move(copying));
  co_return co_await store::copy_store(file, *database, std::move(copying));
}

void report(const Common& common, const Words& words, const std::string& file,
            const std::vector<store::CopiedTable>& tables) {
  std::int64_t rows = 0;
  Json list = Json::array();
  for (const store::CopiedTable& table : tables) {
    rows += table.rows;
    list.push_back({{"table", table.name}, {"rows", table.rows}, {"digest", table.digest}});
  }
  const bool is_back = words.to.empty();
  if (common.json) {
    fmt::print("{}\n", dump_json({{"from", is_back ? words.from : file},
                                  {"to", is_back ? file : words.to},
                                  {"rows", rows},
                                  {"tables", std::move(list)}}));
    return;
  }
  for (const store::CopiedTable& table : tables)
    if (table.rows > 0) fmt::print("{:<20} {:>10}\n", table.name, table.rows);
  fmt::print("{} rows of {} tables are the same in both.\n", rows, tables.size());
  if (is_back)
    fmt::print("Take store.postgres out of the configuration, then start Pons.\n");
  else
    fmt::print(
        "Set store.postgres in the configuration to this URL, then start Pons. {} stays as it is; "
        "nothing looks at it any more.\n",
        printable(file));
}

Result<int> migrate(const std::string& state_dir, const Common& common, const Words& words) {
  if (words.to.empty() == words.from.empty())
    return make_error(ErrorCode::kInvalid, "migrate", "say either --to or --from, with a URL");
  const bool is_back = words.to.empty();
  Entry entry = TRY(entry_of(common, words));
  const auto lock = TRY(supervisor::hold_state_dir(state_dir));
  const std::string file = brain::store_path(state_dir);
  const bool is_there = access(file.c_str(), F_OK) == 0;
  if (!is_back && !is_there)
    return make_error(ErrorCode::kNotFound, "migrate",
                      fmt::format("there is no {}: nothing is to be copied", file));
  const auto loop = TRY(linux::Loop::create());
  database::DirectDatabase direct(*loop, std::move(entry.address), std::move(entry.password),
                                  std::move(entry.authority_file));
  const auto store = TRY(open_as_owner(*loop, file));
  const auto copied = TRY(linux::run_to_end(*loop, copy(*loop, direct, *store, is_back)));
  report(common, words, file, copied);
  return 0;
}

}  // namespace

void add_migrate(CLI::App& app, Common& common, int& exit_code) {
  const auto words = std::make_shared<Words>();
  CLI::App* command = add_state_command(
      app, common, exit_code, "migrate", "Copy the store to PostgreSQL, or back",
      "Pons must not be running, and the target must be empty. Every table is copied, then read "
      "from the target and\ncompared. A copy that breaks off is begun anew by the same command; "
      "until then no Pons starts on it.\nKeys for models and what was spent on them stay with the "
      "gateway, and credentials with the vault.",
      Prints::kData,
      [&common, words](const std::string& dir) { return migrate(dir, common, *words); });
  command->add_option("--to", words->to, "The database: postgres://USER@HOST/NAME")
      ->type_name("URL");
  command->add_option("--from", words->from, "Back: from that database to the state directory")
      ->type_name("URL");
  command
      ->add_option("--password-file", words->password_file,
                   "Holds the database's password; else store.password_file or "
                   "store.password_env of the configuration")
      ->type_name("FILE");
  command->add_flag("--ask-password", words->asks_password,
                    "Ask for the password, or read it from standard input");
  command
      ->add_option("--authority-file", words->authority_file,
                   "Certificates that the database's must lead to")
      ->type_name("FILE");
}

}  // namespace pons::cli
