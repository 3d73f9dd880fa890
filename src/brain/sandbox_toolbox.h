#pragma once

#include <map>
#include <set>
#include <string>

#include "pons/linux/loop.h"
#include "pons/mcp/toolbox.h"
#include "pons/sandbox/provider.h"
#include "pons/session/event.h"
#include "pons/session/tool_text.h"
#include "pons/session/tools.h"
#include "pons/session/world.h"

namespace pons::brain {

// The two tools about sandboxes for clients of MCP: the same that agents have, with the template
// and the network of the agent "default", and behind the same boundary.
//
// A sandbox carries its session's name as a label, so that what a former process left behind is
// found again: kept ones are used on, all others are ended.
class SandboxToolbox final : public mcp::Toolbox {
 public:
  // All outlive this.
  SandboxToolbox(linux::Loop& loop, session::Hands& hands, session::Boundary& boundary,
                 sandbox::Provider& sandboxes, session::AgentSpec agent)
      : loop_(loop),
        hands_(hands),
        boundary_(boundary),
        sandboxes_(sandboxes),
        agent_(std::move(agent)),
        work_(loop) {}

  std::string instructions() const override;
  std::string list(const std::string& project) const override;
  Task<Result<mcp::ToolResult>> call(mcp::ToolCall call) override;
  void cancel(const std::string& session, const std::string& call) override;
  void end(const std::string& session) override;

  // Ends the sandboxes of sessions that nobody knows any more; returns when that is done.
  Task<> end_orphans();

 private:
  struct Belongings {
    std::set<std::string> sandboxes;
    std::set<std::string> kept;
    std::string last;                            // made
    std::map<std::string, std::string> running;  // calls, and where
  };

  bool offers(std::string_view tool) const;
  Task<session::ToolText> provision(mcp::ToolCall call);
  Task<session::ToolText> execute(mcp::ToolCall call);
  Task<Result<void>> check_kept(const mcp::ToolCall& call);
  Task<Result<std::string>> find_sandbox(const mcp::ToolCall& call, std::string named);
  Task<Result<std::string>> clean(session::ToolText text, std::vector<std::string> sandboxes);
  Task<Result<std::string>> redact(std::string text, std::vector<std::string> sandboxes);
  Task<> destroy(std::string sandbox);
  Task<> stop(std::string sandbox, std::string call);

  linux::Loop& loop_;
  session::Hands& hands_;
  session::Boundary& boundary_;
  sandbox::Provider& sandboxes_;
  session::AgentSpec agent_;
  std::map<std::string, Belongings> sessions_;  // those in which a tool was called
  linux::TaskGroup work_;                       // last: its tasks use all of the above
};

}  // namespace pons::brain
