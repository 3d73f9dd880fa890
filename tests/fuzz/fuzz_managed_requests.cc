#include <cstdint>
#include <string_view>

#include "agent_shape.h"
#include "environment_shape.h"
#include "event_input.h"
#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/managed/query.h"
#include "resource_shape.h"
#include "session_shape.h"

// Bodies and queries of clients. What is taken is taken again as it was written.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pons;
  using namespace pons::managed;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto query = Query::parse(text)) {
    (void)read_page(*query, "list", {});
    (void)query->time("created_at[gte]");
  }
  if (const auto time = parse_time(text)) CHECK(parse_time(write_time(*time)) == time);
  const auto json = parse_json(text);
  if (!json || !json->is_object()) return 0;
  const auto environment = read_new_environment(*json);
  if (environment) (void)network_policy_of(*environment, Json::array());
  if (const auto agent = read_new_agent(*json)) {
    const auto again = read_changed_agent(*agent, Json::object());
    CHECK(again && *again == *agent);
    if (environment) (void)spec_of(*agent, *environment);
  }
  const JsonPlace body{.value = *json, .pointer = {}};
  if (const auto resources = read_resources(body)) {
    for (const Json& resource : *resources)
      if (resource.at("type") == "file")
        CHECK(resource.at("mount_path").get<std::string>().find("/../") == std::string::npos);
    const Json shown = {{"resources", *resources}};
    const auto again = read_resources({.value = shown, .pointer = {}});
    CHECK(again && *again == *resources);
  }
  (void)read_vault_ids(body);
  (void)read_added_resource(body);
  (void)read_input({.value = *json, .pointer = {}}, {.session = "sesn_1", .threads = {"ses_2"}},
                   Inputs::kAny);
  (void)read_inputs({.value = *json, .pointer = {}}, "events", {.session = "sesn_1"},
                    Inputs::kInitial);
  return 0;
}
