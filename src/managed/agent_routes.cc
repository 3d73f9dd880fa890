#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent_shape.h"
#include "document_json.h"
#include "harness_shape.h"
#include "multiagent_shape.h"
#include "pons/managed/fields.h"
#include "routes.h"

namespace pons::managed {

Task<Reply<Document>> find_version(Objects& objects, const Document& agent, std::int64_t version) {
  if (version == agent.version) co_return agent;
  CO_TRY(const auto rows,
         co_await objects.store.read({.sql = "SELECT document, created FROM agent_versions "
                                             "WHERE agent_id = $1 AND version = $2",
                                      .values = {agent.id, version}}));
  if (rows.empty()) co_return no_such("version of the agent");
  Document old = agent;
  old.version = version;
  CO_TRY(old.text, store::text_of(rows.front(), 0));
  CO_TRY(old.updated_ms, store::integer_of(rows.front(), 1));
  co_return old;
}

namespace {

// Every version is kept: sessions name the one that they began with.
std::vector<store::Statement> keep_version(const Document& agent) {
  return {{.sql = "INSERT INTO agent_versions (agent_id, version, project_id, document, created) "
                  "VALUES ($1, $2, $3, $4, $5)",
           .values = {agent.id, agent.version, agent.project, agent.text, agent.updated_ms}}};
}

Reply<Json> show(const Document& agent) {
  Json shown = TRY(show_document(agent, "agent"));
  shown["version"] = agent.version;
  // An agent that may call itself calls this version of itself.
  if (Json* members = members_in(shown["multiagent"]))
    for (Json& member : *members)
      if (member["type"] == "self")
        member = {{"type", "agent"}, {"id", agent.id}, {"version", agent.version}};
  return shown;
}

// Members of a coordinator are there, not archived, and coordinate nobody themselves. Those
// without a version get the one of now.
Task<Reply<Json>> resolve_members(Objects& objects, const std::string& project, Json agent) {
  Json* members = members_in(agent["multiagent"]);
  if (members == nullptr) co_return agent;
  for (Json& member : *members) {
    if (member["type"] != "agent") continue;
    auto found = co_await objects.agents.find(project, member["id"].get<std::string>());
    if (!found)
      co_return bad_request(
          fmt::format("multiagent: there is no agent {}", member["id"].get<std::string>()));
    if (found->archived_ms)
      co_return bad_request("multiagent: an archived agent cannot be a member");
    if (member["version"].is_null()) member["version"] = found->version;
    CO_TRY(const auto version,
           co_await find_version(objects, *found, member["version"].get<std::int64_t>()));
    CO_TRY(const auto said, parse_json(version.text));
    if (!said.at("multiagent").is_null())
      co_return bad_request("multiagent: a member must not coordinate agents itself");
    CO_TRY_VOID(check_member(said.at("metadata")));
  }
  co_return agent;
}

Task<Reply<Json>> create(Objects& objects, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  CO_TRY(auto agent, read_new_agent(body));
  CO_TRY(const auto resolved,
         co_await resolve_members(objects, call.caller.project, std::move(agent)));
  CO_TRY_VOID(check_harness(objects.harnesses, resolved.at("metadata")));
  CO_TRY(const auto made,
         co_await objects.agents.create(call.caller.project, dump_json(resolved), keep_version));
  co_return show(made);
}

Task<Reply<Json>> get(Objects& objects, Call& call) {
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto version, query.number("version", 1'000'000'000));
  CO_TRY(const auto agent, co_await objects.agents.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto wanted, co_await find_version(objects, agent, version.value_or(agent.version)));
  co_return show(wanted);
}

Task<Reply<Json>> update(Objects& objects, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  CO_TRY(const auto before, co_await objects.agents.find(call.caller.project, call.ids[0]));
  if (before.archived_ms) co_return is_archived("agent");
  const JsonPlace place{.value = body, .pointer = {}};
  if (has_value(place, "version")) {
    CO_TRY(const auto seen, place.at("version").number(1, 1'000'000'000));
    if (static_cast<std::int64_t>(seen) != before.version)
      co_return conflict(
          fmt::format("the agent is at version {}, not {}; read it again", before.version, seen));
  }
  CO_TRY(const auto said, parse_json(before.text));
  CO_TRY(auto changed, read_changed_agent(said, body));
  CO_TRY(const auto resolved,
         co_await resolve_members(objects, call.caller.project, std::move(changed)));
  CO_TRY_VOID(check_harness(objects.harnesses, resolved.at("metadata")));
  if (resolved == said) co_return show(before);  // nothing new is no new version
  CO_TRY(const auto after,
         co_await objects.agents.replace(before, dump_json(resolved), keep_version));
  co_return show(after);
}

Task<Reply<Json>> list_versions(Objects& objects, Call& call) {
  CO_TRY(const auto agent, co_await objects.agents.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto wish, read_page(query, "agent versions", {.usual = 20, .max = 100}));
  std::int64_t below = agent.version + 1;
  if (!wish.after.empty()) {
    CO_TRY(below, number_in(wish, 0));
  }
  CO_TRY(const auto rows,
         co_await objects.store.read({.sql = "SELECT version, document, created FROM "
                                             "agent_versions WHERE agent_id = $1 AND version < $2 "
                                             "ORDER BY version DESC LIMIT $3",
                                      .values = {agent.id, below, wish.limit + 1}}));
  Json list = Json::array();
  Json next = nullptr;
  Document version = agent;
  for (const store::Row& row : rows) {
    if (static_cast<std::int64_t>(list.size()) == wish.limit) {
      next = write_cursor("agent versions", {fmt::format("{}", version.version)});
      break;
    }
    CO_TRY(version.version, store::integer_of(row, 0));
    CO_TRY(version.text, store::text_of(row, 1));
    CO_TRY(version.updated_ms, store::integer_of(row, 2));
    CO_TRY(auto shown, show(version));
    list.push_back(std::move(shown));
  }
  co_return Json{{"data", std::move(list)}, {"next_page", std::move(next)}};
}

}  // namespace

std::vector<http::Route> agent_routes(Objects& objects) {
  const auto with = [&objects](auto work) {
    return answering([&objects, work](Call& call) { return work(objects, call); });
  };
  return {{"POST", "/v1/agents", with(create)},
          {"GET", "/v1/agents",
           with([](Objects& o, Call& call) { return list_documents(o.agents, call, show); })},
          {"GET", "/v1/agents/{id}", with(get)},
          {"POST", "/v1/agents/{id}", with(update)},
          {"GET", "/v1/agents/{id}/versions", with(list_versions)},
          {"POST", "/v1/agents/{id}/archive",
           with([](Objects& o, Call& call) { return archive_document(o.agents, call, show); })}};
}

}  // namespace pons::managed
