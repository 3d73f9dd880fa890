#include "agent_shape.h"

#include <fmt/format.h>

#include "multiagent_shape.h"
#include "tool_shape.h"

namespace pons::managed {

namespace {

constexpr TextLimits kName{.min = 1, .max = 256};
constexpr TextLimits kDescription{.max = 4'096};
constexpr TextLimits kSystem{.max = 100'000};
constexpr TextLimits kModel{.min = 1, .max = 256};
constexpr std::size_t kMembersMax = 20;

Result<Json> read_model(const JsonPlace& place) {
  if (place.value.is_string() || !place.value.is_object()) {
    const Json wrapped = {{"model", place.value}};
    return Json{{"id", TRY(needed_text({wrapped, {}}, "model", kModel))},
                {"effort", {{"type", "high"}}},
                {"speed", "standard"}};
  }
  TRY_VOID(place.expect_object({"id", "effort", "speed", "inference_geo"}));
  Json model = {{"id", TRY(needed_text(place, "id", kModel))}};
  std::string effort = "high";
  if (has_value(place, "effort")) {
    const JsonPlace given = place.at("effort");
    if (given.value.is_object()) TRY_VOID(given.expect_object({"type"}));
    const JsonPlace holder = given.value.is_object() ? given : place;
    effort = TRY(optional_word(holder, given.value.is_object() ? "type" : "effort",
                               {"low", "medium", "high", "xhigh", "max"}))
                 .value_or(effort);
  }
  model["effort"] = {{"type", effort}};
  model["speed"] = TRY(optional_word(place, "speed", {"standard", "fast"})).value_or("standard");
  if (const auto geo = TRY(optional_text(place, "inference_geo", {.max = 64})))
    model["inference_geo"] = *geo;
  return model;
}

Result<Json> read_identity(const JsonPlace& place) {
  TRY(type_of(place, {"service_account"}));
  TRY_VOID(place.expect_object({"type"}));
  return Json{{"type", "service_account"}};
}

// The list, or the empty one that null stands for.
Result<Json> list_or_empty(const JsonPlace& place, const char* key,
                           Result<Json> (*read)(const JsonPlace&)) {
  if (!has_value(place, key)) return Json::array();
  return read(place.at(key));
}

Result<Json> read_skills(const JsonPlace& place) {
  TRY_VOID(place.expect_list(kMembersMax));
  if (!place.value.empty()) return place.refuse("skills are not supported");
  return Json::array();
}

Result<Json> optional_or_null(const JsonPlace& place, const char* key, TextLimits limits) {
  auto text = TRY(optional_text(place, key, limits));
  if (text && text->empty()) text.reset();
  return or_null(text);
}

// Tools, servers and what else is replaced as a whole.
Result<void> read_parts(const JsonPlace& place, Json& agent) {
  if (place.has("tools")) agent["tools"] = TRY(list_or_empty(place, "tools", read_tools));
  if (place.has("mcp_servers"))
    agent["mcp_servers"] = TRY(list_or_empty(place, "mcp_servers", read_mcp_servers));
  if (place.has("skills")) agent["skills"] = TRY(list_or_empty(place, "skills", read_skills));
  if (place.has("system")) agent["system"] = TRY(optional_or_null(place, "system", kSystem));
  return check_servers_are_used(place, agent["tools"], agent["mcp_servers"]);
}

}  // namespace

Result<Json> read_new_agent(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  if (!has_value(place, "name")) return place.refuse("\"name\" is missing");
  if (!has_value(place, "model")) return place.refuse("\"model\" is missing");
  if (place.has("version")) return place.at("version").refuse("is for updates");
  const Json nothing = {{"name", nullptr},
                        {"description", nullptr},
                        {"system", nullptr},
                        {"model", nullptr},
                        {"tools", Json::array()},
                        {"mcp_servers", Json::array()},
                        {"skills", Json::array()},
                        {"multiagent", nullptr},
                        {"execution_identity", {{"type", "service_account"}}},
                        {"metadata", Json::object()}};
  return read_changed_agent(nothing, body);
}

Result<Json> read_changed_agent(const Json& before, const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(
      place.expect_object({"name", "description", "system", "model", "tools", "mcp_servers",
                           "skills", "multiagent", "execution_identity", "metadata", "version"}));
  Json agent = before;
  if (has_value(place, "name")) agent["name"] = TRY(needed_text(place, "name", kName));
  if (place.has("description"))
    agent["description"] = TRY(optional_or_null(place, "description", kDescription));
  if (has_value(place, "model")) agent["model"] = TRY(read_model(place.at("model")));
  if (place.has("multiagent"))
    agent["multiagent"] =
        has_value(place, "multiagent")
            ? TRY(read_multiagent(before.at("multiagent"), place.at("multiagent")))
            : Json(nullptr);
  if (has_value(place, "execution_identity"))
    agent["execution_identity"] = TRY(read_identity(place.at("execution_identity")));
  agent["metadata"] = TRY(patch_metadata(before.at("metadata"), place, "metadata"));
  TRY_VOID(read_parts(place, agent));
  return agent;
}

Result<Json> read_overrides(const Json& agent, const JsonPlace& place) {
  Json changed = agent;
  if (has_value(place, "model")) changed["model"] = TRY(read_model(place.at("model")));
  TRY_VOID(read_parts(place, changed));
  return changed;
}

}  // namespace pons::managed
