#pragma once

#include "pons/mcp/toolbox.h"

namespace pons::egress {

// What MCP offers inside sandboxes: nothing so far. A sandbox that makes sandboxes would have to
// count against the limits of the session it belongs to, and nobody can tell these yet.
class NoTools final : public mcp::Toolbox {
 public:
  std::string list(const std::string&) const override { return "[]"; }
  Task<Result<mcp::ToolResult>> call(mcp::ToolCall) override {
    co_return make_error(ErrorCode::kNotFound, "call tool", "there is no such tool");
  }
  void cancel(const std::string&, const std::string&) override {}
  void end(const std::string&) override {}
};

}  // namespace pons::egress
