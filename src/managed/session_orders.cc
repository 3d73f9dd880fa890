#include "session_orders.h"

#include <algorithm>

#include <fmt/format.h>

namespace pons::managed {

namespace {

using store::Value;

constexpr const char* kColumns =
    "o.session_id, o.project_id, o.agent_id, o.agent_version, o.environment_id, o.deployment_id, "
    "o.version, o.document, o.created, o.updated";

Result<SessionOrder> order_of(const store::Row& row) {
  return SessionOrder{.session = TRY(store::text_of(row, 0)),
                      .project = TRY(store::text_of(row, 1)),
                      .agent = TRY(store::text_of(row, 2)),
                      .agent_version = TRY(store::integer_of(row, 3)),
                      .environment = TRY(store::text_of(row, 4)),
                      .deployment = TRY(store::text_of(row, 5)),
                      .version = TRY(store::integer_of(row, 6)),
                      .text = TRY(store::text_of(row, 7)),
                      .created_ms = TRY(store::integer_of(row, 8)),
                      .updated_ms = TRY(store::integer_of(row, 9))};
}

// Conditions of a list, with their values in their places.
struct Conditions {
  store::Statement& statement;

  std::string place(Value value) {
    statement.values.push_back(std::move(value));
    return fmt::format("${}", statement.values.size());
  }
  void add(std::string_view condition) { statement.sql += fmt::format(" AND {}", condition); }
  void add(std::string_view column, std::string_view relation, Value value) {
    add(fmt::format("{} {} {}", column, relation, place(std::move(value))));
  }
};

// An archived session is terminated, whatever its log says; it is shown where it is asked for.
void add_statuses(Conditions& conditions, const OrderFilter& filter) {
  if (filter.statuses.empty() && !filter.terminated) {
    if (!filter.with_archived) conditions.add("s.archived IS NULL");
    return;
  }
  std::string places;
  for (const std::string& status : filter.statuses)
    places += (places.empty() ? "" : ", ") + conditions.place(status);
  const std::string living =
      places.empty() ? "" : fmt::format("(s.archived IS NULL AND s.status IN ({}))", places);
  if (!filter.terminated)
    conditions.add(living);
  else if (living.empty())
    conditions.add("s.archived IS NOT NULL");
  else
    conditions.add(fmt::format("(s.archived IS NOT NULL OR {})", living));
}

void add_filter(Conditions& conditions, const OrderFilter& filter) {
  if (!filter.agent.empty()) conditions.add("o.agent_id", "=", filter.agent);
  if (filter.agent_version) conditions.add("o.agent_version", "=", *filter.agent_version);
  if (!filter.deployment.empty()) conditions.add("o.deployment_id", "=", filter.deployment);
  // The documents are ours: within a text, a quote has a backslash before it.
  if (!filter.memory_store.empty())
    conditions.add("o.document", "LIKE",
                   fmt::format(R"(%"memory_store_id":"{}"%)", filter.memory_store));
  if (filter.after_ms) conditions.add("o.created", ">=", *filter.after_ms);
  if (filter.before_ms) conditions.add("o.created", "<", *filter.before_ms);
  add_statuses(conditions, filter);
}

}  // namespace

std::int64_t SessionOrders::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

Task<Reply<SessionOrder>> SessionOrders::create(SessionOrder order) {
  order.created_ms = order.updated_ms = now_ms();
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "INSERT INTO session_orders (session_id, project_id, agent_id, agent_version, "
               "environment_id, deployment_id, version, document, created, updated) "
               "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)",
        .values = {order.session, order.project, order.agent, order.agent_version,
                   order.environment, order.deployment, order.version, order.text,
                   order.created_ms}}}));
  co_return order;
}

Task<Reply<SessionOrder>> SessionOrders::find(std::string project, std::string session) {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = fmt::format("SELECT {} FROM session_orders AS o WHERE "
                                                  "o.session_id = $1 AND o.project_id = $2",
                                                  kColumns),
                               .values = {std::move(session), std::move(project)}}));
  if (rows.empty()) co_return no_such("session");
  CO_TRY(auto order, order_of(rows.front()));
  co_return order;
}

Task<Reply<SessionOrder>> SessionOrders::replace(const SessionOrder& before, std::string text) {
  SessionOrder after = before;
  after.version += 1;
  after.text = std::move(text);
  after.updated_ms = std::max(now_ms(), before.updated_ms);
  const auto written = co_await store_.write(
      {{.sql = "UPDATE session_orders SET version = $1, document = $2, updated = $3 "
               "WHERE session_id = $4 AND version = $5",
        .values = {after.version, after.text, after.updated_ms, after.session, before.version},
        .must_change = 1}});
  if (!written && written.error().code == ErrorCode::kConflict)
    co_return conflict("the session was changed meanwhile; read it again");
  if (!written) co_return written.error();
  co_return after;
}

Task<Reply<void>> SessionOrders::take_back(std::string project, std::string session) {
  CO_TRY_VOID(co_await store_.write(
      {{.sql =
            "DELETE FROM session_orders WHERE session_id = $1 AND project_id = $2 AND NOT EXISTS "
            "(SELECT 1 FROM sessions AS s WHERE s.id = session_orders.session_id)",
        .values = {std::move(session), std::move(project)}}}));
  co_return {};
}

Task<Reply<void>> SessionOrders::remove(std::string project, std::string session) {
  const auto removed = co_await store_.write(
      {{.sql = "DELETE FROM sessions WHERE id = $1 AND project_id = $2 AND archived IS NOT NULL",
        .values = {session, project},
        .must_change = 1},
       {.sql = "DELETE FROM session_events WHERE session_id = $1", .values = {session}},
       {.sql = "DELETE FROM session_events WHERE session_id IN "
               "(SELECT id FROM sessions WHERE parent_id <> '' AND parent_id = $1)",
        .values = {session}},
       {.sql = "DELETE FROM sessions WHERE parent_id <> '' AND parent_id = $1",
        .values = {session}},
       {.sql = "DELETE FROM session_orders WHERE session_id = $1 AND project_id = $2",
        .values = {session, project},
        .must_change = 1}});
  if (!removed && removed.error().code == ErrorCode::kConflict)
    co_return conflict("the session is at work");
  if (!removed) co_return removed.error();
  co_return {};
}

Task<Reply<OrderPage>> SessionOrders::list(std::string project, const OrderFilter& filter,
                                           const PageWish& wish) {
  store::Statement statement{
      .sql = fmt::format("SELECT {} FROM session_orders AS o JOIN sessions AS s "
                         "ON s.id = o.session_id WHERE o.project_id = $1",
                         kColumns),
      .values = {std::move(project)}};
  Conditions conditions{statement};
  add_filter(conditions, filter);
  const char* relation = filter.oldest_first ? ">" : "<";
  if (!wish.after.empty()) {
    CO_TRY(const auto created, number_in(wish, 0));
    const std::string at = conditions.place(created);
    const std::string id = conditions.place(wish.after.size() > 1 ? wish.after[1] : std::string());
    conditions.add(fmt::format("(o.created {0} {1} OR (o.created = {1} AND o.session_id {0} {2}))",
                               relation, at, id));
  }
  statement.sql +=
      fmt::format(" ORDER BY o.created {0}, o.session_id {0} LIMIT {1}",
                  filter.oldest_first ? "ASC" : "DESC", conditions.place(wish.limit + 1));
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  OrderPage page;
  for (const store::Row& row : rows) {
    if (static_cast<std::int64_t>(page.orders.size()) == wish.limit) {
      const SessionOrder& last = page.orders.back();
      page.next_page =
          write_cursor(list_name(filter), {fmt::format("{}", last.created_ms), last.session});
      break;
    }
    CO_TRY(auto order, order_of(row));
    page.orders.push_back(std::move(order));
  }
  co_return page;
}

}  // namespace pons::managed
