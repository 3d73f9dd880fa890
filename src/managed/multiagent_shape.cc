#include "multiagent_shape.h"

#include <fmt/format.h>

#include "pons/session/tools.h"

namespace pons::managed {

namespace {

constexpr std::size_t kMembersMax = 20;
constexpr TextLimits kId{.min = 1, .max = 256};
constexpr const char* kNewKind = "multiagent_20261001";
constexpr std::string_view kAdvisor = "advisor";
constexpr std::string_view kAdvice =
    "You advise another agent, which tells you what it is about to do and what it doubts. You have "
    "no tools. Say what you would do and why, what it overlooks, and how sure you are; be short.";

Result<Json> read_member(const JsonPlace& place, bool may_advise) {
  if (place.value.is_string())
    return Json{{"type", "agent"}, {"id", TRY(place.text())}, {"version", nullptr}};
  const std::string type = may_advise ? TRY(type_of(place, {"agent", "self", "advisor"}))
                                      : TRY(type_of(place, {"agent", "self"}));
  if (type == "advisor") {
    TRY_VOID(place.expect_object({"type", "model"}));
    return Json{{"type", "advisor"}, {"model", TRY(needed_text(place, "model", kId))}};
  }
  if (type == "self") {
    TRY_VOID(place.expect_object({"type"}));
    return Json{{"type", "self"}};
  }
  TRY_VOID(place.expect_object({"type", "id", "version"}));
  Json member = {{"type", "agent"}, {"id", TRY(needed_text(place, "id", kId))}};
  member["version"] = has_value(place, "version")
                          ? Json(TRY(place.at("version").number(1, 1'000'000'000)))
                          : Json(nullptr);
  return member;
}

// The same agent twice, at whatever version; a second advisor.
bool is_there(const Json& members, const Json& member) {
  for (const Json& other : members)
    if (other["type"] == member["type"] && other.value("id", "") == member.value("id", ""))
      return true;
  return false;
}

Result<Json> read_members(const JsonPlace& list, bool may_advise) {
  TRY_VOID(list.expect_list(kMembersMax));
  Json members = Json::array();
  for (std::size_t i = 0; i < list.value.size(); ++i) {
    Json member = TRY(read_member(list.at(i), may_advise));
    if (is_there(members, member)) return list.at(i).refuse("is there already");
    members.push_back(std::move(member));
  }
  return members;
}

Result<Json> read_coordinator(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "agents"}));
  if (!place.has("agents")) return place.refuse("\"agents\" is missing");
  Json members = TRY(read_members(place.at("agents"), true));
  if (members.empty()) return place.at("agents").refuse("is empty");
  return Json{{"type", "coordinator"}, {"agents", std::move(members)}};
}

const Json kDisabled = {{"type", "disabled"}};

Result<Json> read_advisor(const JsonPlace& place) {
  const std::string type = TRY(type_of(place, {"enabled", "disabled"}));
  if (type == "disabled") return kDisabled;
  TRY_VOID(place.expect_object({"type", "model"}));
  return Json{{"type", "enabled"}, {"model", TRY(needed_text(place, "model", kId))}};
}

Result<Json> read_subagents(const Json& before, const JsonPlace& place) {
  const std::string type = TRY(type_of(place, {"enabled", "disabled"}));
  if (type == "disabled") return kDisabled;
  TRY_VOID(place.expect_object({"type", "inline_agents", "predefined_agents"}));
  Json subagents = {{"type", "enabled"},
                    {"inline_agents", {{"type", "enabled"}}},
                    {"predefined_agents", Json::array()}};
  if (before.value("type", "") == "enabled") subagents = before;
  if (place.has("inline_agents")) {
    const bool is_off =
        has_value(place, "inline_agents") &&
        TRY(type_of(place.at("inline_agents"), {"enabled", "disabled"})) == "disabled";
    subagents["inline_agents"] = {{"type", is_off ? "disabled" : "enabled"}};
  }
  if (place.has("predefined_agents"))
    subagents["predefined_agents"] = has_value(place, "predefined_agents")
                                         ? TRY(read_members(place.at("predefined_agents"), false))
                                         : Json::array();
  return subagents;
}

// There are none here. Whoever leaves them out is shown so; whoever wants them is refused.
Result<Json> read_workflows(const JsonPlace& place) {
  if (has_value(place, "workflows") &&
      TRY(type_of(place.at("workflows"), {"enabled", "disabled"})) == "enabled")
    return place.at("workflows")
        .refuse("workflows are not supported: leave them out, or say {\"type\": \"disabled\"}");
  return kDisabled;
}

Result<Json> read_new_kind(const Json& before, const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "advisor", "subagents", "workflows"}));
  const bool is_change = before.is_object() && before.value("type", "") == kNewKind;
  Json after = {{"type", kNewKind}, {"advisor", kDisabled}, {"workflows", kDisabled}};
  const Json nothing = {{"subagents", {{"type", "enabled"}}}};
  const JsonPlace usual{.value = nothing, .pointer = place.pointer};
  after["subagents"] = TRY(read_subagents(Json::object(), usual.at("subagents")));
  if (is_change) after = before;
  if (place.has("advisor"))
    after["advisor"] =
        has_value(place, "advisor") ? TRY(read_advisor(place.at("advisor"))) : kDisabled;
  if (has_value(place, "subagents"))
    after["subagents"] = TRY(read_subagents(after["subagents"], place.at("subagents")));
  else if (place.has("subagents"))
    after["subagents"] = TRY(read_subagents(Json::object(), usual.at("subagents")));
  after["workflows"] = TRY(read_workflows(place));
  return after;
}

const Json* members_of(const Json& multiagent) {
  if (!multiagent.is_object()) return nullptr;
  if (const auto agents = multiagent.find("agents"); agents != multiagent.end()) return &*agents;
  const auto subagents = multiagent.find("subagents");
  if (subagents == multiagent.end()) return nullptr;
  const auto agents = subagents->find("predefined_agents");
  return agents == subagents->end() ? nullptr : &*agents;
}

std::optional<std::string> advisor_model(const Json& multiagent) {
  if (const auto advisor = multiagent.find("advisor");
      advisor != multiagent.end() && (*advisor)["type"] == "enabled")
    return (*advisor)["model"].get<std::string>();
  if (const Json* members = members_of(multiagent))
    for (const Json& member : *members)
      if (member["type"] == kAdvisor) return member["model"].get<std::string>();
  return std::nullopt;
}

// The members with the names that tell them apart.
std::vector<std::pair<std::string, const Json*>> named_members(const Json& multiagent) {
  std::vector<std::pair<std::string, const Json*>> named;
  const Json* members = members_of(multiagent);
  if (members == nullptr) return named;
  for (const Json& member : *members) {
    if (member["type"] != "agent" || !member.contains("name")) continue;
    const std::string name = member.at("name");
    std::string free = name;
    const auto is_taken = [&] {
      return free == kAdvisor || free == session::kInlineAgent ||
             std::ranges::any_of(named, [&](const auto& other) { return other.first == free; });
    };
    for (int i = 2; is_taken(); ++i) free = fmt::format("{} {}", name, i);
    named.emplace_back(std::move(free), &member);
  }
  return named;
}

}  // namespace

Result<Json> read_multiagent(const Json& before, const JsonPlace& place) {
  const std::string type = TRY(type_of(place, {"coordinator", kNewKind}));
  return type == "coordinator" ? read_coordinator(place) : read_new_kind(before, place);
}

Json* members_in(Json& multiagent) {
  return const_cast<Json*>(members_of(multiagent));  // NOLINT: of an object that may be changed
}

void add_members(const Json& multiagent, const Json& environment, SpecOf spec_of,
                 session::AgentSpec& spec) {
  if (!multiagent.is_object()) return;
  std::vector<session::AgentSpec> members;
  for (const auto& [name, member] : named_members(multiagent)) {
    session::AgentSpec& added = members.emplace_back(spec_of(*member, environment));
    added.name = name;
    if (const auto& said = member->at("description"); said.is_string()) added.description = said;
  }
  if (const auto model = advisor_model(multiagent))
    members.push_back({.name = std::string(kAdvisor),
                       .model = *model,
                       .system = std::string(kAdvice),
                       .tools = {std::string(session::kNoTool)},
                       .description = "Gives advice when asked; does nothing itself."});
  if (const auto subagents = multiagent.find("subagents"); subagents != multiagent.end())
    spec.makes_members =
        (*subagents)["type"] == "enabled" && (*subagents)["inline_agents"]["type"] == "enabled";
  spec.has_threads = spec.makes_members || !members.empty();
  spec.members = session::Members(std::move(members));
  if (spec.has_threads) spec.tools.emplace_back(session::kSpawnAgent);
}

Json find_member(const Json& agent, std::string_view name) {
  const Json& multiagent = agent.at("multiagent");
  for (const auto& [known_as, member] : named_members(multiagent))
    if (known_as == name) return *member;
  if (name == kAdvisor)
    return {{"type", "advisor"}, {"model", advisor_model(multiagent).value_or("")}};
  Json described = agent;
  for (const char* key : {"id", "version", "multiagent"}) described.erase(key);
  described["type"] = "inline";
  described["name"] = name;
  described["description"] = nullptr;
  return described;
}

}  // namespace pons::managed
