#include "session_update.h"

#include <algorithm>
#include <optional>
#include <ranges>

#include <nlohmann/json.hpp>

#include "agent_shape.h"
#include "environment_shape.h"
#include "harness_shape.h"
#include "memory_grants.h"
#include "pons/managed/fields.h"
#include "session_shape.h"

namespace pons::managed {

namespace {

constexpr const char* kUpdates = "updates";  // how many of them the order has

// What is to become of the order's members, and of the session's agent.
struct Change {
  Json members = Json::object();
  std::optional<session::AgentSpec> agent = std::nullopt;

  void set(const Json& said, const char* name, Json value) {
    if (said.at(name) != value) members[name] = std::move(value);
  }
};

// A budget is set when a session is made; later it can only grow, or go.
Reply<std::int64_t> changed_budget(std::int64_t before, const JsonPlace& place,
                                   const session::Usage& used) {
  if (!place.has("budget")) return before;
  if (place.at("budget").value.is_null()) return 0;
  if (before == 0) {
    Refusal refusal = bad_request("a session that was made without a budget cannot get one");
    refusal.code = "budget_create_only";
    return refusal;
  }
  const std::int64_t after = TRY(read_budget(place.at("budget")));
  if (after <= used.cost_nano) {
    Refusal refusal = bad_request("the budget is not above what the session has cost");
    refusal.code = "budget_not_raised";
    return refusal;
  }
  return after;
}

Task<Reply<session::AgentSpec>> agent_after(Objects& objects, const SessionOrder& order,
                                            const Json& said) {
  CO_TRY(const auto environment,
         co_await objects.environments.find(order.project, order.environment));
  CO_TRY(auto config, parse_json(environment.text));
  add_vaults(order.project, said.at("vault_ids"), config);
  session::AgentSpec spec = spec_of(said.at("agent"), config);
  add_memory(said.at("agent"), said.at("resources"), spec);
  add_harness(said.value("harness", Json()), spec);
  add_member_harnesses(said.value("member_harnesses", Json::array()), spec);
  spec.budget_nano = said.at("budget_nano").get<std::int64_t>();
  co_return spec;
}

Task<Reply<Change>> read_change(Objects& objects, const SessionOrder& order, Json said,
                                const session::Usage& used, const JsonPlace& place) {
  CO_TRY_VOID(place.expect_object({"title", "metadata", "agent", "budget", "vault_ids"}));
  if (place.has("vault_ids")) co_return bad_request("vault_ids cannot be changed");
  Change change;
  if (place.has("title")) {
    CO_TRY(const auto title, optional_text(place, "title", {.max = 256}));
    change.set(said, "title", or_null(title));
  }
  CO_TRY(auto metadata, patch_metadata(said.at("metadata"), place, "metadata"));
  change.set(said, "metadata", std::move(metadata));
  if (has_value(place, "agent")) {
    const JsonPlace wish = place.at("agent");
    CO_TRY_VOID(wish.expect_object({"tools", "mcp_servers"}));
    CO_TRY(auto agent, read_overrides(said.at("agent"), wish));
    change.set(said, "agent", std::move(agent));
  }
  CO_TRY(const auto budget,
         changed_budget(said.at("budget_nano").get<std::int64_t>(), place, used));
  change.set(said, "budget_nano", budget);
  if (!change.members.contains("agent") && !change.members.contains("budget_nano"))
    co_return change;
  said.update(change.members);
  CO_TRY(change.agent, co_await agent_after(objects, order, said));
  co_return change;
}

// Others may change the order meanwhile (its resources), or do this for us.
Task<Reply<SessionOrder>> apply(Objects& objects, SessionOrder order, const Json& members,
                                std::int64_t number) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    CO_TRY(auto said, parse_json(order.text));
    if (said.value(kUpdates, std::int64_t{0}) >= number) co_return order;
    said.update(members);
    said[kUpdates] = number;
    auto after = co_await objects.orders.replace(order, dump_json(said));
    if (after || after.error().status != 409) co_return after;
    CO_TRY(order, co_await objects.orders.find(order.project, order.session));
  }
  co_return conflict("the session is being changed by others; read it again");
}

// The session is at work, or somebody else was first.
Task<Reply<SessionOrder>> why_not(Objects& objects, session::Sessions& sessions, SessionOrder order,
                                  std::int64_t number, Error refused) {
  CO_TRY(const auto log, co_await sessions.read_all(order.session));
  const auto last =
      std::ranges::find_if(log | std::views::reverse, [](const session::StoredEvent& stored) {
        return std::holds_alternative<session::Updated>(stored.event);
      });
  if (last == (log | std::views::reverse).end()) co_return refused;
  const auto& updated = std::get<session::Updated>(last->event);
  if (updated.number < number) co_return refused;
  CO_TRY(const auto members, parse_json(updated.changes));
  CO_TRY_VOID(co_await apply(objects, std::move(order), members, updated.number));
  co_return conflict("the session was changed meanwhile; read it again");
}

}  // namespace

Task<Reply<SessionOrder>> update_session(Objects& objects, session::Sessions& sessions,
                                         SessionOrder order, const Json& body) {
  CO_TRY(const auto summary, co_await sessions.log().find(order.session));
  if (summary.archived_ms) co_return is_archived("session");
  CO_TRY(const auto said, parse_json(order.text));
  CO_TRY(auto change,
         co_await read_change(objects, order, said, summary.usage, {.value = body, .pointer = {}}));
  if (change.members.empty()) co_return order;
  const std::int64_t number = said.value(kUpdates, std::int64_t{0}) + 1;
  std::vector<session::Event> events;
  events.emplace_back(session::Updated{.number = number, .changes = dump_json(change.members)});
  if (change.agent) events.emplace_back(session::AgentChanged{std::move(*change.agent)});
  const auto added = co_await sessions.add_all(order.session, std::move(events));
  if (added) co_return co_await apply(objects, std::move(order), change.members, number);
  if (added.error().code != ErrorCode::kConflict) co_return added.error();
  co_return co_await why_not(objects, sessions, std::move(order), number, added.error());
}

}  // namespace pons::managed
