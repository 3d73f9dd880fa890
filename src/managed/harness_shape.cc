#include "harness_shape.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace pons::managed {

namespace {

constexpr const char* kNative = "native";

std::string word_at(const Json& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found != metadata.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Error refuse(std::string why) {
  return make_error(ErrorCode::kInvalid, "read agent", std::move(why));
}

}  // namespace

Result<void> check_harness(const HarnessChoice& choice, const Json& metadata) {
  const std::string name = word_at(metadata, "harness");
  if (!name.empty() && name != kNative &&
      std::ranges::find(choice.names, name) == choice.names.end())
    return refuse(fmt::format("metadata.harness: there is no harness \"{}\"; there are native, {}",
                              name, fmt::join(choice.names, ", ")));
  const std::string placement = word_at(metadata, "placement");
  if (!placement.empty() && placement != "brain" && placement != "sandbox")
    return refuse("metadata.placement: must be brain or sandbox");
  return {};
}

Json harness_of(const HarnessChoice& choice, const Json& metadata) {
  std::string name = word_at(metadata, "harness");
  if (name.empty()) name = choice.usual;
  if (name == kNative) return nullptr;
  const std::string placement = word_at(metadata, "placement");
  return {{"name", name}, {"placement", placement.empty() ? "brain" : placement}};
}

void add_harness(const Json& harness, session::AgentSpec& spec) {
  if (!harness.is_object()) return;
  spec.harness = harness.at("name");
  spec.harness_in_machine = harness.at("placement") == "sandbox";
}

void add_member_harnesses(const Json& harnesses, session::AgentSpec& spec) {
  if (!harnesses.is_array() || harnesses.empty()) return;
  std::vector<session::AgentSpec> members = spec.members.all();
  for (std::size_t i = 0; i < std::min(members.size(), harnesses.size()); ++i) {
    add_harness(harnesses[i], members[i]);
    // One that is its own coordinator may live there.
    if (members[i].harness_in_machine) members[i].harness.clear();
    members[i].harness_in_machine = false;
  }
  spec.members = session::Members(std::move(members));
}

Result<void> check_member(const Json& metadata) {
  const std::string name = word_at(metadata, "harness");
  if (name != kNative && word_at(metadata, "placement") == "sandbox")
    return refuse(
        "multiagent: a member's harness cannot live in the machine of its session: let "
        "its metadata say placement: brain");
  return {};
}

}  // namespace pons::managed
