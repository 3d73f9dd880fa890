#include "session_maker.h"

#include <optional>

#include <fmt/format.h>

#include "agent_shape.h"
#include "environment_shape.h"
#include "event_input.h"
#include "harness_shape.h"
#include "memory_grants.h"
#include "multiagent_shape.h"
#include "named_files.h"
#include "outcome_shape.h"
#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/managed/package_set.h"
#include "resource_shape.h"
#include "session_shape.h"

namespace pons::managed {

namespace {

constexpr std::size_t kIdLength = 26;

Refusal with_code(Refusal refusal, const char* code) {
  refusal.code = code;
  return refusal;
}

Task<Reply<Document>> find_environment(Objects& objects, const std::string& project,
                                       const JsonPlace& place) {
  CO_TRY(const auto id, needed_text(place, "environment_id", {.min = 1, .max = 128}));
  auto found = co_await objects.environments.find(project, id);
  if (!found && found.error().status == 404)
    co_return with_code(std::move(found.error()), "environment_not_found");
  if (found && found->archived_ms)
    co_return with_code(is_archived("environment"), "environment_archived");
  co_return found;
}

// The same session may be asked for again, by a process that does not know how far the last one
// got.
void say_once(const std::string& session, std::vector<session::Event>& events) {
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (auto* message = std::get_if<session::UserMessage>(&events[i]))
      message->dedupe = fmt::format("initial-{}", i);
    if (auto* outcome = std::get_if<session::OutcomeDefined>(&events[i]))
      outcome->id =
          "outc_" + sha256_hex(fmt::format("{}:initial-{}", session, i)).substr(0, kIdLength);
  }
}

// A project that has as many as it may have is not helped by trying again.
Refusal why_not_made(const Error& error) {
  Refusal refusal(error);
  refusal.is_final = error.code == ErrorCode::kLimit;
  return refusal;
}

std::string new_id() {
  return "sesn_" + random_text(kIdLength);
}

}  // namespace

namespace {

// An agent as a session shows it.
Reply<Json> snapshot_of(const Document& agent, Json said) {
  said.erase("metadata");
  Json shown = {{"id", agent.id}, {"type", "agent"}, {"version", agent.version}};
  shown.update(said);
  return shown;
}

// The whole of every agent that this one may give tasks to, as it is at its version.
Task<Reply<void>> resolve_members(Objects& objects, const std::string& project, Json& agent) {
  Json* members = members_in(agent["multiagent"]);
  if (members == nullptr) co_return {};
  for (Json& member : *members) {
    if (member["type"] == "advisor") continue;
    Json whole = agent;
    if (member["type"] == "agent") {
      CO_TRY(const auto found,
             co_await objects.agents.find(project, member["id"].get<std::string>()));
      CO_TRY(const auto version,
             co_await find_version(objects, found, member["version"].get<std::int64_t>()));
      CO_TRY(auto said, parse_json(version.text));
      CO_TRY(whole, snapshot_of(version, std::move(said)));
    }
    whole.erase("multiagent");
    member = std::move(whole);
  }
  co_return {};
}

}  // namespace

Task<Reply<Json>> find_agent(Objects& objects, const std::string& project, const Json& wish) {
  const Json holder = {{"agent", wish}};
  const JsonPlace root{.value = holder, .pointer = {}};
  const JsonPlace place = root.at("agent");
  std::string id;
  std::optional<std::int64_t> version;
  bool has_overrides = false;
  if (place.value.is_string()) {
    CO_TRY(id, place.text());
  } else {
    CO_TRY(const auto type, type_of(place, {"agent", "agent_with_overrides"}));
    has_overrides = type == "agent_with_overrides";
    if (has_overrides)
      CO_TRY_VOID(place.expect_object(
          {"type", "id", "version", "model", "system", "tools", "mcp_servers", "skills"}));
    else
      CO_TRY_VOID(place.expect_object({"type", "id", "version"}));
    CO_TRY(id, needed_text(place, "id", {.min = 1, .max = 128}));
    if (has_value(place, "version")) {
      CO_TRY(const auto number, place.at("version").number(1, 1'000'000'000));
      version = static_cast<std::int64_t>(number);
    }
  }
  CO_TRY(auto agent, co_await objects.agents.find(project, id));
  if (agent.archived_ms) co_return is_archived("agent");
  CO_TRY(agent, co_await find_version(objects, agent, version.value_or(agent.version)));
  CO_TRY(auto said, parse_json(agent.text));
  if (has_overrides) {
    CO_TRY(said, read_overrides(said, place));
  }
  CO_TRY(auto shown, snapshot_of(agent, std::move(said)));
  CO_TRY_VOID(co_await resolve_members(objects, project, shown));
  co_return shown;
}

namespace {

// What a session is made of, as it stands in its order.
struct Parts {
  Json agent;
  Json harness;
  Json member_harnesses;  // in the order of the members
  std::string environment;
  Json config;
  Json resources;
  Json vault_ids;
};

// What a session shows of its agent does not say so.
Task<Reply<Json>> find_harness(Objects& objects, const std::string& project, const Json& agent) {
  CO_TRY(const auto found, co_await objects.agents.find(project, agent["id"].get<std::string>()));
  CO_TRY(const auto version,
         co_await find_version(objects, found, agent["version"].get<std::int64_t>()));
  CO_TRY(const auto said, parse_json(version.text));
  co_return harness_of(objects.harnesses, said.at("metadata"));
}

Task<Reply<Json>> find_member_harnesses(Objects& objects, const std::string& project, Json agent) {
  Json found = Json::array();
  const Json* members = members_in(agent["multiagent"]);
  if (members == nullptr) co_return found;
  for (const Json& member : *members) {
    if (member["type"] != "agent") continue;
    CO_TRY(auto harness, co_await find_harness(objects, project, member));
    found.push_back(std::move(harness));
  }
  co_return found;
}

Task<Reply<Parts>> settle_parts(Objects& objects, std::string project, const JsonPlace& place) {
  CO_TRY(auto agent, co_await find_agent(objects, project, place.value["agent"]));
  CO_TRY(auto harness, co_await find_harness(objects, project, agent));
  CO_TRY(auto member_harnesses, co_await find_member_harnesses(objects, project, agent));
  CO_TRY(const auto environment, co_await find_environment(objects, project, place));
  CO_TRY(auto config, parse_json(environment.text));
  CO_TRY(auto vault_ids, read_vault_ids(place));
  CO_TRY_VOID(co_await check_vaults(objects, project, vault_ids));
  CO_TRY(auto resources, read_resources(place));
  CO_TRY(resources,
         co_await settle_resources(
             objects,
             {.project = project, .self_hosted = config.at("config").at("type") == "self_hosted"},
             std::move(resources)));
  co_return Parts{.agent = std::move(agent),
                  .harness = std::move(harness),
                  .member_harnesses = std::move(member_harnesses),
                  .environment = environment.id,
                  .config = std::move(config),
                  .resources = std::move(resources),
                  .vault_ids = std::move(vault_ids)};
}

// It was settled when the order was written, and what has gone since then is no reason to say that
// there is no session.
Task<Reply<Parts>> parts_of(Objects& objects, const SessionOrder& order) {
  CO_TRY(auto said, parse_json(order.text));
  CO_TRY(const auto environment,
         co_await objects.environments.find(order.project, order.environment));
  CO_TRY(auto config, parse_json(environment.text));
  co_return Parts{.agent = std::move(said.at("agent")),
                  .harness = said.value("harness", Json()),
                  .member_harnesses = said.value("member_harnesses", Json::array()),
                  .environment = order.environment,
                  .config = std::move(config),
                  .resources = std::move(said.at("resources")),
                  .vault_ids = std::move(said.at("vault_ids"))};
}

}  // namespace

Task<Reply<Json>> make_session(Objects& objects, session::Sessions& sessions, SessionWish wish,
                               const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  CO_TRY_VOID(place.expect_object({"agent", "environment_id", "title", "metadata", "resources",
                                   "vault_ids", "initial_events", "budget"}));
  if (!has_value(place, "agent")) co_return bad_request("\"agent\" is missing");
  const bool may_be_there = !wish.id.empty();
  std::optional<SessionOrder> there;
  if (may_be_there) {
    auto found = co_await objects.orders.find(wish.project, wish.id);
    if (!found && found.error().status != 404) co_return found.error();
    if (found) there = std::move(*found);
  }
  Parts parts;
  if (there) {
    CO_TRY(parts, co_await parts_of(objects, *there));
  } else {
    CO_TRY(parts, co_await settle_parts(objects, wish.project, place));
  }
  auto config = parts.config;
  CO_TRY(const auto title, optional_text(place, "title", {.max = 256}));
  CO_TRY(auto metadata, read_metadata(place, "metadata"));
  if (!may_be_there) wish.id = new_id();
  Json settled = Json::object();
  CO_TRY(settled["initial_events"],
         co_await bring_files(objects, wish.project, body.value("initial_events", Json())));
  CO_TRY(auto inputs, read_inputs({.value = settled, .pointer = {}}, "initial_events",
                                  {.session = wish.id}, Inputs::kInitial));
  std::vector<session::Event> events;
  for (Input& input : inputs) events.push_back(std::move(input.event));
  if (may_be_there) say_once(wish.id, events);

  add_vaults(wish.project, parts.vault_ids, config);
  session::AgentSpec spec = spec_of(parts.agent, config);
  add_memory(parts.agent, parts.resources, spec);
  add_harness(parts.harness, spec);
  add_member_harnesses(parts.member_harnesses, spec);
  CO_TRY_VOID(check_tool_names(spec));
  if (has_value(place, "budget")) {
    CO_TRY(spec.budget_nano, read_budget(place.at("budget")));
  }
  if (!there) {
    if (auto set = package_set_of(config)) {
      CO_TRY_VOID(
          co_await objects.packages.keep_for_session(wish.id, wish.project, std::move(*set)));
    }
    auto order = co_await objects.orders.create(
        {.session = wish.id,
         .project = wish.project,
         .agent = parts.agent["id"],
         .agent_version = parts.agent["version"],
         .environment = parts.environment,
         .deployment = wish.deployment,
         .text = dump_json({{"agent", parts.agent},
                            {"harness", parts.harness},
                            {"member_harnesses", parts.member_harnesses},
                            {"title", or_null(title)},
                            {"metadata", std::move(metadata)},
                            {"resources", parts.resources},
                            {"vault_ids", parts.vault_ids},
                            {"budget_nano", spec.budget_nano}})});
    if (!order && order.error().status == 409 && may_be_there)
      order = co_await objects.orders.find(wish.project, wish.id);
    if (!order) co_return order.error();
    there = std::move(*order);
  }
  auto made = co_await sessions.create({.id = wish.id,
                                        .project = wish.project,
                                        .agent = std::move(spec),
                                        .title = title.value_or("")});
  if (!made) {
    // Nobody hears of its id, so that nobody can ask for it again.
    if (!may_be_there) {
      CO_TRY_VOID(co_await objects.orders.take_back(wish.project, wish.id));
    }
    co_return why_not_made(made.error());
  }
  session::Summary summary = std::move(*made);
  if (!events.empty()) {
    CO_TRY_VOID(co_await sessions.add_all(wish.id, std::move(events)));
    CO_TRY(summary, co_await sessions.log().find(wish.id));
  }
  co_return co_await present_session(objects, *there, summary);
}

}  // namespace pons::managed
