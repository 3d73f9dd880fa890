#pragma once

#include <map>
#include <string>

#include "pons/linux/loop.h"
#include "pons/mcp/toolbox.h"
#include "pons/sandbox/provider.h"
#include "pons/session/sessions.h"
#include "pons/session/world.h"

namespace pons::brain {

// A sandbox whose first process is an agent's harness has this label, which only the brain gives.
inline constexpr const char* kHarnessLabel = "pons.harness";

// MCP inside sandboxes, at tools.pons.internal. Who asks is a sandbox, as egress knows it by its
// socket; what it has are the tools of the session that it belongs to, by its labels: the session's
// memory, as far as nobody has to be asked for it. What a program in a sandbox writes is nobody's
// whom the session knows: it is untrusted. A harness speaks for the agent: its words count as the
// session's own, and it has the agent's tools about sandboxes, too.
class CellToolbox final : public mcp::Toolbox {
 public:
  // All outlive this.
  CellToolbox(linux::Loop& loop, session::Sessions& sessions, session::Notes& notes,
              session::Boundary& boundary, sandbox::Provider& sandboxes, mcp::Toolbox& for_harness)
      : loop_(loop),
        sessions_(sessions),
        notes_(notes),
        boundary_(boundary),
        sandboxes_(sandboxes),
        for_harness_(for_harness) {}

  // To be asked before anything else is, for each request. kNotFound: there is no such sandbox.
  Task<Result<void>> meet(std::string sandbox);

  std::string list(const std::string& sandbox) const override;
  Task<Result<mcp::ToolResult>> call(mcp::ToolCall call) override;
  void cancel(const std::string& session, const std::string& call) override;
  void end(const std::string& session) override;

 private:
  struct Guest {
    std::string session;  // empty: it belongs to none
    std::string project;
    bool is_harness = false;
    session::AgentSpec agent;
    TimePoint seen;
  };
  bool may_use(const Guest& guest, std::string_view tool) const;
  Task<Result<mcp::ToolResult>> use_memory(const Guest& guest, mcp::ToolCall call);

  linux::Loop& loop_;
  session::Sessions& sessions_;
  session::Notes& notes_;
  session::Boundary& boundary_;
  sandbox::Provider& sandboxes_;
  mcp::Toolbox& for_harness_;
  std::map<std::string, Guest> guests_;  // by sandbox
};

}  // namespace pons::brain
