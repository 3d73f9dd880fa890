#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "making.h"
#include "named_files.h"
#include "pons/session/decide.h"
#include "tool_policy.h"

namespace pons::managed {

namespace {

constexpr const char* kRequestAccess = "request_network_access";

// What a person has to look at first is no failure to connect, but there is no nearer word.
const char* error_type_of(session::ServerFault fault) {
  return fault == session::ServerFault::kAuthentication ? "mcp_authentication_failed_error"
                                                        : "mcp_connection_failed_error";
}

std::string describe(const session::AccessEnded& event) {
  const auto outcome = session::name_of(event.outcome);
  return event.message.empty() ? std::string(outcome)
                               : fmt::format("{}: {}", outcome, event.message);
}

}  // namespace

bool Translator::Making::is_custom_tool(std::string_view name) const {
  return std::ranges::find(after.agent.custom, name, &session::CustomTool::name) !=
         after.agent.custom.end();
}

// As it is before it is begun.
const session::Call* Translator::Making::call_begun_by(const session::ToolCalled& event) const {
  const auto call = std::ranges::find_if(before.calls, [&](const session::Call& each) {
    return each.seq == 0 && each.block == event.block;
  });
  return call == before.calls.end() ? nullptr : &*call;
}

void Translator::Making::operator()(const session::UserDecision& event) const {
  Json fields = {{"tool_use_id", call_id(event.call)},
                 {"result", event.allowed ? "allow" : "deny"}};
  if (!event.message.empty()) fields["deny_message"] = event.message;
  add("user.tool_confirmation", std::move(fields));
  if (event.allowed || before.find_access(event.call) != nullptr) return;
  const session::Call* call = after.find_call(event.call);
  add_result({.seq = stored.seq, .part = Part::kMessage}, call, event.call,
             call == nullptr ? "" : call->result, true);
}

void Translator::Making::operator()(const session::UserToolResult& event) const {
  const session::Call* call = before.find_call(event.call);
  const bool is_custom = call == nullptr || is_custom_tool(call->name);
  add(is_custom ? "user.custom_tool_result" : "user.tool_result",
      {{is_custom ? "custom_tool_use_id" : "tool_use_id", call_id(event.call)},
       {"content", with_names_of_files(blocks_of(event.content))},
       {"is_error", event.is_error}});
}

void Translator::Making::operator()(const session::ToolCalled& event) const {
  if (const auto agent = agent_called(event)) return add_thread(*agent, event);
  const session::Call* call = after.find_call(stored.seq);
  Json fields = {{"name", event.name}, {"input", input_of(event)}, {"session_thread_id", nullptr}};
  if (is_custom_tool(event.name)) return add("agent.custom_tool_use", std::move(fields));
  const bool is_server = call != nullptr && !call->server.empty();
  if (is_server) {
    fields["name"] = call->server_name;
    fields["mcp_server_name"] = call->server;
  }
  const session::Call* begun = call_begun_by(event);
  if (begun != nullptr && session::refusal_of(before, *begun))
    add_refusal(fields);
  else
    add_evaluation(fields, after.agent,
                   is_server ? NamedTool{.name = call->server_name, .server = call->server}
                             : NamedTool{.name = event.name},
                   call != nullptr && call->waits_for == session::WaitsFor::kDecision);
  add(is_server ? "agent.mcp_tool_use" : "agent.tool_use", std::move(fields));
}

void Translator::Making::operator()(const session::ToolEnded& event) const {
  if (translator.threads_.contains(event.call)) return end_thread(event);
  add_result({.seq = stored.seq}, after.find_call(event.call), event.call,
             event.shown.empty() ? event.text : event.shown, event.is_error);
}

void Translator::Making::add_result(EventId id, const session::Call* call, session::Seq seq,
                                    std::string_view text, bool is_error) const {
  const bool is_server = call != nullptr && !call->server.empty();
  add(is_server ? "agent.mcp_tool_result" : "agent.tool_result", id,
      {{is_server ? "mcp_tool_use_id" : "tool_use_id", call_id(seq)},
       {"content", text_blocks(text)},
       {"is_error", is_error}});
}

// Shown as a tool that asks: clients know how a person answers that.
void Translator::Making::operator()(const session::AccessAsked& event) const {
  if (after.find_access(stored.seq) == nullptr) return;
  Json fields = {{"name", kRequestAccess},
                 {"input", parse_json(event.wish).value_or(Json::object())},
                 {"session_thread_id", nullptr}};
  add_evaluation(fields, after.agent, {.name = kRequestAccess}, true);
  add("agent.tool_use", std::move(fields));
}

void Translator::Making::operator()(const session::AccessEnded& event) const {
  const session::AccessWait* access = before.find_access(event.request);
  if (access == nullptr) return;
  add_result({.seq = stored.seq}, nullptr, access->seq, describe(event),
             event.outcome != session::AccessOutcome::kAllowed);
}

// The turn goes on without its tools; the next one tries again.
void Translator::Making::operator()(const session::ServerTrouble& event) const {
  add("session.error", {.seq = stored.seq, .part = Part::kError},
      {{"error",
        {{"type", error_type_of(event.fault)},
         {"message", event.message},
         {"mcp_server_name", event.server},
         {"retry_status", {{"type", "retrying"}}}}}});
}

}  // namespace pons::managed
