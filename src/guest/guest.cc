#include "guest.h"

#include <algorithm>
#include <utility>

namespace pons::guest {

bool Guest::is_doing_own() const {
  return std::ranges::any_of(being_done, [&](const auto& each) {
    const WantedCall& call = *each.second;
    return call.is_own() && !call.result && !(process && process->has_result(call.own));
  });
}

bool Guest::offers(std::string_view tool) const {
  return std::ranges::find(tool_names, tool) != tool_names.end();
}

void Guest::answer_all(std::string_view why) {
  const auto end = [&](WantedCall& call) {
    if (!call.result) call.result = mcp::ToolResult{.text = std::string(why), .is_error = true};
    call.answered.set();
  };
  for (auto& call : std::exchange(wanted, {})) end(*call);
  for (auto& [id, call] : std::exchange(being_done, {})) end(*call);
}

}  // namespace pons::guest
