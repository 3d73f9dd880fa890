#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "pons/harness/event.h"

// For tests of this folder: events as short texts.

namespace pons::harness {

struct Tell {
  std::string operator()(const Ready& e) const { return "ready " + e.session; }
  std::string operator()(const ToolsOffered& e) const {
    return fmt::format("tools {}", fmt::join(e.names, ","));
  }
  std::string operator()(const TextDelta& e) const { return "delta " + e.text; }
  std::string operator()(const ThinkingDelta& e) const { return "thinks " + e.text; }
  std::string operator()(const Text& e) const { return "text " + e.text; }
  std::string operator()(const ToolCall& e) const {
    return fmt::format("call {} {} {}", e.id, e.name, e.input);
  }
  std::string operator()(const ToolResult& e) const {
    return fmt::format("{} {} {}", e.is_error ? "error" : "result", e.id, e.text);
  }
  std::string operator()(const ToolRequest& e) const {
    return fmt::format("wants {} {} {}", e.id, e.name, e.input);
  }
  std::string operator()(const PermissionRequest& e) const {
    return fmt::format("asks {} {} {}", e.id, e.tool, e.input);
  }
  std::string operator()(const Usage& e) const {
    return fmt::format("usage {}+{}+{}+{}", e.input, e.cache_read, e.cache_write, e.output);
  }
  std::string operator()(const Failure& e) const {
    return fmt::format("{} {}: {}", e.retries ? "trouble" : "failure", name_of(e.fault), e.message);
  }
  std::string operator()(const Idle& e) const { return fmt::format("idle {}", name_of(e.ending)); }
};

inline std::vector<std::string> told(const std::vector<Event>& events) {
  std::vector<std::string> texts;
  for (const Event& event : events) texts.push_back(std::visit(Tell{}, event));
  return texts;
}

}  // namespace pons::harness
