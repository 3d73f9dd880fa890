#include "pons/store/postgres_store.h"

#include <algorithm>

#include <fmt/format.h>

#include "asked_bytes.h"
#include "bell.h"
#include "lane.h"
#include "session.h"
#include "sql_shape.h"

namespace pons::store {

namespace {

// Others may be making the tables, and large ones take their time.
constexpr Duration kMigrationTime = std::chrono::minutes(10);

// Nobody else is told of a connection that serves one purpose.
class NoOwner final : public postgres::LinkOwner {
 public:
  void on_answered(const postgres::Request&) override {}
  void on_returned(std::shared_ptr<postgres::Request> request) override {
    request->answer(
        make_error(ErrorCode::kUnavailable, "ask PostgreSQL", "the connection was lost"));
  }
  void on_notification(postgres::Notification) override {}
};

Error explain(const std::string& shown, const Error& why) {
  Error error = why;
  error.message = fmt::format("{}: {}", shown, why.message.empty() ? why.describe() : why.message);
  return error;
}

Task<Result<void>> make_tables(linux::Loop& loop, const PostgresOptions& options) {
  CO_TRY(auto stream, co_await options.open(loop.now() + options.connect_time));
  NoOwner owner;
  postgres::Link link(
      loop, std::move(stream),
      {.answer = {.rows = options.limits.rows, .row_bytes = options.limits.row_bytes},
       .silence_max = kMigrationTime},
      owner);
  const auto run = [](postgres::Link& running) -> Task<> { (void)co_await running.run(); };
  linux::TaskGroup tasks(loop);
  tasks.spawn(run(link));
  CO_TRY_VOID(co_await postgres::set_up(loop, link, postgres::Use::kWrite, options.limits,
                                        loop.now() + options.connect_time));
  co_return co_await postgres::migrate(loop, link, migrations(Dialect::kPostgres), options.shown,
                                       loop.now() + kMigrationTime);
}

Result<void> check_shapes(const Transaction& transaction) {
  for (const Statement& statement : transaction) TRY_VOID(postgres::read_shape(statement));
  return {};
}

}  // namespace

struct PostgresStore::Lanes {
  Lanes(linux::Loop& loop, const PostgresOptions& options)
      : writes(loop, postgres::Use::kWrite, options.writing, options),
        reads(loop, postgres::Use::kRead, options.reading, options),
        holder(loop, postgres::Use::kHold, options.name.empty() && !options.is_alone ? 0 : 1,
               options,
               {.heard = [this](const postgres::Notification& word) { bell.hear(word); },
                .opened = [this] { bell.hear_again(); }}),
        bell(loop, options.name, holder) {}
  postgres::Lane writes;
  postgres::Lane reads;
  postgres::Lane holder;
  postgres::PostgresBell bell;
};

Task<Result<std::unique_ptr<PostgresStore>>> PostgresStore::open(linux::Loop& loop,
                                                                 PostgresOptions options) {
  co_await loop.next_round();  // deadlines count from now, not from when the loop last looked
  if (const auto made = co_await make_tables(loop, options); !made)
    co_return explain(options.shown, made.error());
  std::unique_ptr<PostgresStore> store(new PostgresStore(loop, std::move(options)));
  if (store->options_.name.empty() && !store->options_.is_alone) co_return std::move(store);
  // The server may still have to notice that a process before this one is gone.
  const auto held =
      co_await store->lanes_->holder.wait_until_open(loop.now() + store->options_.connect_time);
  if (!held) co_return explain(store->options_.shown, held.error());
  co_return std::move(store);
}

PostgresStore::PostgresStore(linux::Loop& loop, PostgresOptions options)
    : loop_(loop), options_(std::move(options)), lanes_(std::make_unique<Lanes>(loop_, options_)) {}

PostgresStore::~PostgresStore() = default;

Task<Result<std::vector<Outcome>>> PostgresStore::write(Transaction transaction) {
  CO_TRY(const std::size_t bytes, asked_bytes(transaction, options_.limits));
  CO_TRY_VOID(check_shapes(transaction));
  if (transaction.empty()) co_return std::vector<Outcome>{};
  CO_TRY(auto request, lanes_->writes.push(std::move(transaction), bytes));
  co_return co_await lanes_->writes.wait(std::move(request),
                                         loop_.now() + options_.limits.answer_time);
}

Task<Result<std::vector<Row>>> PostgresStore::read(Statement statement) {
  CO_TRY(const std::size_t bytes, asked_bytes(statement, options_.limits));
  CO_TRY(const auto shape, postgres::read_shape(statement));
  if (shape.changes)
    co_return make_error(ErrorCode::kInvalid, "ask store", "a read changes nothing");
  Transaction one;
  one.push_back(std::move(statement));
  CO_TRY(auto request, lanes_->reads.push(std::move(one), bytes));
  CO_TRY(auto outcomes, co_await lanes_->reads.wait(std::move(request),
                                                    loop_.now() + options_.limits.answer_time));
  co_return std::move(outcomes.front().rows);
}

Bell* PostgresStore::bell() {
  return options_.name.empty() ? nullptr : &lanes_->bell;
}

Task<> PostgresStore::finish(TimePoint deadline) {
  co_await lanes_->writes.wait_until_idle(deadline);
  co_await lanes_->reads.wait_until_idle(deadline);
}

}  // namespace pons::store
