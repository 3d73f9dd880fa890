#include "cell_toolbox.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/memory/tools.h"
#include "pons/session/tools.h"

namespace pons::brain {

namespace {

// A call is made right after its caller was met.
constexpr Duration kRememberedTime = std::chrono::minutes(1);
constexpr std::size_t kGuestsMax = 4'096;

std::string label(const sandbox::SandboxInfo& info, const char* name) {
  const auto found = info.labels.find(name);
  return found == info.labels.end() ? std::string() : found->second;
}

// As MCP writes what the model is told.
Json as_mcp(const Json& tool) {
  return {{"name", tool.at("name")},
          {"description", tool.at("description")},
          {"inputSchema", tool.at("input_schema")}};
}

bool is_harness_tool(std::string_view tool) {
  return tool == session::kProvision || tool == session::kExecute;
}

}  // namespace

Task<Result<void>> CellToolbox::meet(std::string sandbox) {
  CO_TRY(const auto info, co_await sandboxes_.inspect(sandbox));
  Guest guest{.session = label(info, "pons.session"),
              .project = label(info, "pons.project"),
              .is_harness = !label(info, kHarnessLabel).empty(),
              .agent = {},
              .seen = loop_.now()};
  if (!guest.session.empty()) {
    const auto summary = co_await sessions_.log().find(guest.session);
    // A sandbox of an MCP client, or one whose session is gone.
    if (!summary || summary->project != guest.project || summary->archived_ms)
      guest.session.clear();
  }
  if (!guest.session.empty()) {
    CO_TRY(const auto state, co_await sessions_.look(guest.session));
    guest.agent = state.agent;
  }
  if (guests_.size() >= kGuestsMax)
    std::erase_if(guests_, [this](const auto& each) {
      return each.second.seen + kRememberedTime < loop_.now();
    });
  guests_[sandbox] = std::move(guest);
  co_return {};
}

// Nobody can be asked from in there.
bool CellToolbox::may_use(const Guest& guest, std::string_view tool) const {
  if (guest.session.empty()) return false;
  if (!memory::is_memory_tool(tool) && !(guest.is_harness && is_harness_tool(tool))) return false;
  const bool asks = std::ranges::find(guest.agent.asks, tool) != guest.agent.asks.end();
  return !asks && session::is_allowed(guest.agent, tool);
}

std::string CellToolbox::list(const std::string& sandbox) const {
  Json offered = Json::array();
  const auto guest = guests_.find(sandbox);
  if (guest == guests_.end()) return "[]";
  const auto all = parse_json(session::write_tools(guest->second.agent));
  for (const Json& tool : all.value_or(Json::array()))
    if (may_use(guest->second, tool.at("name").get<std::string>())) offered.push_back(as_mcp(tool));
  return dump_json(offered);
}

Task<Result<mcp::ToolResult>> CellToolbox::call(mcp::ToolCall call) {
  const auto found = guests_.find(call.project);
  if (found == guests_.end() || !may_use(found->second, call.name))
    co_return make_error(ErrorCode::kNotFound, "call tool", "there is no such tool");
  const Guest guest = found->second;
  if (memory::is_memory_tool(call.name)) co_return co_await use_memory(guest, std::move(call));
  call.project = guest.project;
  co_return co_await for_harness_.call(std::move(call));
}

Task<Result<mcp::ToolResult>> CellToolbox::use_memory(const Guest& guest, mcp::ToolCall call) {
  CO_TRY(const auto state, co_await sessions_.look(guest.session));
  CO_TRY(auto report, co_await notes_.use(
                          {.session = guest.session,
                           .project = guest.project,
                           .call = "mcp:" + call.id,
                           .stores = guest.agent.memory,
                           .tool = std::move(call.name),
                           .input = std::move(call.arguments),
                           .has_read_untrusted = !guest.is_harness || state.has_read_untrusted}));
  CO_TRY(auto clean, co_await boundary_.redact({.text = std::move(report.text)}));
  co_return mcp::ToolResult{.text = std::move(clean.text), .is_error = report.is_error};
}

void CellToolbox::cancel(const std::string& session, const std::string& call) {
  for_harness_.cancel(session, call);
}

void CellToolbox::end(const std::string& session) {
  for_harness_.end(session);
}

}  // namespace pons::brain
