#include "session.h"

#include <chrono>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::store::postgres {

namespace {

constexpr std::int64_t kOldestVersion = 140'000;
constexpr Duration kLockTime = std::chrono::seconds(10);
// "Pons" and the purpose: nobody else in the database uses these numbers.
constexpr std::int64_t kMigrationLock = 0x506F6E73'00000001;
constexpr std::int64_t kOnlyUserLock = 0x506F6E73'00000002;

std::string milliseconds(Duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

Error refuse(std::string message) {
  return make_error(ErrorCode::kUnsupported, "check PostgreSQL", std::move(message));
}

Task<Result<std::vector<Outcome>>> wait_for(Link& link, std::shared_ptr<Request> request,
                                            TimePoint deadline) {
  link.send(request);
  if (co_await request->answered.wait(deadline) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, "ask PostgreSQL", "the server took too long");
  co_return std::move(request->result);
}

Task<Result<std::vector<Outcome>>> run_script(linux::Loop& loop, Link& link, std::string script,
                                              TimePoint deadline) {
  auto request = std::make_shared<Request>(loop);
  request->script = std::move(script);
  return wait_for(link, std::move(request), deadline);
}

Result<void> check_server(const Row& row) {
  const std::string version = TRY(text_of(row, 0));
  const auto number = parse_decimal(version);
  if (!number || static_cast<std::int64_t>(*number) < kOldestVersion)
    return refuse("PostgreSQL 14 or newer is needed");
  if (TRY(text_of(row, 1)) != "UTF8")
    return refuse("the database's encoding is not UTF8; create it with ENCODING 'UTF8'");
  // What was acknowledged would be lost when the server stops at the wrong moment.
  if (TRY(text_of(row, 2)) == "off")
    return refuse("synchronous_commit is off; turn it on for this user or database");
  // The standby that is to take over would not have what was acknowledged.
  constexpr std::size_t kStandbys = 13;
  if (TRY(text_of(row, 2)) == "local" && !TRY(text_of(row, kStandbys)).empty())
    return refuse(
        "synchronous_commit is local while synchronous_standby_names has a standby; turn it on "
        "for this user or database");
  if (TRY(text_of(row, 3)) != "on")
    return refuse("fsync is off, so the server would lose what it has acknowledged; turn it on");
  if (TRY(integer_of(row, 4)) != 0)
    return make_error(ErrorCode::kUnavailable, "check PostgreSQL",
                      "the server is a standby, which only reads");
  return {};
}

// By the first bytes of a digest of its name.
std::int64_t lock_of(const std::string& node) {
  constexpr std::size_t kDigits = 15;  // hexadecimal, of a number that is not negative
  constexpr int kHexadecimal = 16;
  return static_cast<std::int64_t>(
      std::stoull(sha256_hex("pons node " + node).substr(0, kDigits), nullptr, kHexadecimal));
}

Task<Result<bool>> try_advisory_lock(linux::Loop& loop, Link& link, std::string sql,
                                     std::int64_t lock, TimePoint deadline) {
  Transaction question;
  question.push_back({.sql = std::move(sql), .values = {lock}});
  CO_TRY(const auto outcomes, co_await ask(loop, link, std::move(question), deadline));
  if (outcomes.front().rows.size() != 1) co_return false;
  CO_TRY(const auto has_it, integer_of(outcomes.front().rows.front(), 0));
  co_return has_it != 0;
}

// One migration, and the note that it was applied: both or neither, because one text is one
// transaction.
std::string script_of(const Migration& migration) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return fmt::format(
      "{}\n;INSERT INTO schema_migrations (number, name, digest, applied) "
      "VALUES ({}, '{}', '{}', {})",
      migration.sql, migration.number, migration.name, sha256_hex(migration.sql), now.count());
}

Error explain(const Migration& migration, Error error) {
  const bool is_taken = error.message.find("(SQLSTATE 42P07)") != std::string::npos;
  error.message = fmt::format("migration {:04}_{}: {}{}", migration.number, migration.name,
                              error.message, is_taken ? "; give Pons a database of its own" : "");
  return error;
}

}  // namespace

Task<Result<std::vector<Outcome>>> ask(linux::Loop& loop, Link& link, Transaction statements,
                                       TimePoint deadline) {
  auto request = std::make_shared<Request>(loop);
  request->statements = std::move(statements);
  return wait_for(link, std::move(request), deadline);
}

Task<Result<void>> set_up(linux::Loop& loop, Link& link, Use use, const StoreLimits& limits,
                          TimePoint deadline) {
  const bool reads = use == Use::kRead;
  Statement statement{
      .sql =
          "SELECT current_setting('server_version_num'), current_setting('server_encoding'), "
          "current_setting('synchronous_commit'), current_setting('fsync'), pg_is_in_recovery(), "
          "set_config('client_encoding', 'UTF8', false), "
          "set_config('default_transaction_isolation', 'read committed', false), "
          "set_config('default_transaction_read_only', $1, false), "
          "set_config('statement_timeout', $2, false), set_config('lock_timeout', $3, false), "
          // A machine that is gone without a word holds locks until the server has noticed.
          "set_config('tcp_keepalives_idle', '4', false), "
          "set_config('tcp_keepalives_interval', '2', false), "
          "set_config('tcp_keepalives_count', '3', false), "
          "current_setting('synchronous_standby_names')",
      .values = {std::string(reads ? "on" : "off"),
                 milliseconds(reads ? limits.read_time : limits.answer_time),
                 milliseconds(kLockTime)}};
  Transaction all;
  all.push_back(std::move(statement));
  CO_TRY(const auto outcomes, co_await ask(loop, link, std::move(all), deadline));
  if (outcomes.front().rows.size() != 1)
    co_return make_error(ErrorCode::kInvalid, "check PostgreSQL", "the server does not answer");
  co_return check_server(outcomes.front().rows.front());
}

Task<Result<void>> hold(linux::Loop& loop, Link& link, std::string_view name, TimePoint deadline) {
  const std::string node(name);
  CO_TRY(const auto may_share,
         co_await try_advisory_lock(loop, link, "SELECT pg_try_advisory_lock_shared($1)",
                                    kOnlyUserLock, deadline));
  if (!may_share)
    co_return make_error(ErrorCode::kConflict, "hold database",
                         "somebody has this database for themselves: `pons migrate`, or a Pons "
                         "without `store.others: shared`");
  CO_TRY(const auto is_first,
         co_await try_advisory_lock(loop, link, "SELECT pg_try_advisory_lock($1)", lock_of(node),
                                    deadline));
  if (!is_first)
    co_return make_error(
        ErrorCode::kConflict, "hold database",
        fmt::format("another Pons uses this database as node {}; a copy of a state "
                    "directory needs a name of its own: remove brain/node there",
                    node));
  CO_TRY_VOID(co_await run_script(loop, link, fmt::format("LISTEN {}", kChannel), deadline));
  co_return {};
}

Task<Result<void>> hold_alone(linux::Loop& loop, Link& link, TimePoint deadline) {
  CO_TRY(const auto is_alone,
         co_await try_advisory_lock(loop, link, "SELECT pg_try_advisory_lock($1)", kOnlyUserLock,
                                    deadline));
  if (is_alone) co_return {};
  co_return make_error(ErrorCode::kConflict, "hold database",
                       "a Pons uses this database; stop it first (several of them share one where "
                       "each has `store.others: shared`)");
}

Task<Result<void>> migrate(linux::Loop& loop, Link& link, std::span<const Migration> known,
                           std::string_view shown, TimePoint deadline) {
  // Held until the connection is closed. Waiting for it may take as long as the others' tables.
  CO_TRY_VOID(co_await run_script(
      loop, link,
      fmt::format("SET lock_timeout = 0; SET statement_timeout = 0; SELECT pg_advisory_lock({})",
                  kMigrationLock),
      deadline));
  CO_TRY_VOID(co_await run_script(loop, link, kMigrationsTable, deadline));
  Transaction question;
  question.push_back({.sql = kAppliedMigrations, .values = {}});
  CO_TRY(const auto outcomes, co_await ask(loop, link, std::move(question), deadline));
  CO_TRY(const auto applied, check_applied(outcomes.front().rows, known, shown));
  for (const Migration& migration : known.subspan(static_cast<std::size_t>(applied))) {
    const auto made = co_await run_script(loop, link, script_of(migration), deadline);
    if (!made) co_return explain(migration, made.error());
  }
  co_return {};
}

}  // namespace pons::store::postgres
