#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "making.h"
#include "pons/session/decide.h"
#include "pons/session/tools.h"
#include "thread_id.h"
#include "tool_policy.h"

namespace pons::managed {

namespace {

session::Seq number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<session::Seq>() : 0;
}

Json object_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_object() ? *found : Json::object();
}

}  // namespace

// The name of the agent that the call is given to; nothing when it is no such call, or refused.
std::optional<std::string> Translator::Making::agent_called(
    const session::ToolCalled& event) const {
  if (event.name != session::kSpawnAgent || !before.agent.has_threads) return std::nullopt;
  const session::Call* call = call_begun_by(event);
  if (call == nullptr || session::refusal_of(before, *call)) return std::nullopt;
  const auto task = session::read_task(before.agent, call->input);
  if (!task) return std::nullopt;
  return task->agent.empty() ? std::string(session::kInlineAgent) : task->agent;
}

std::string Translator::Making::thread_of(session::Seq call) const {
  return write_thread_id(translator.child_of(call));
}

const session::AgentSpec& Translator::Making::agent_of(session::Seq call) const {
  const session::AgentSpec* member = after.agent.members.find(translator.threads_.at(call));
  return member == nullptr ? after.agent : *member;
}

void Translator::Making::add_thread(const std::string& agent,
                                    const session::ToolCalled& event) const {
  translator.threads_[stored.seq] = agent;
  const std::string thread = thread_of(stored.seq);
  add("session.thread_created",
      {{"session_thread_id", thread}, {"agent_name", agent}, {"workflow_run_id", nullptr}});
  add("agent.thread_message_sent", {.seq = stored.seq, .part = Part::kThreadMessage},
      {{"to_session_thread_id", thread},
       {"to_agent_name", agent},
       {"content", text_blocks(text_at(input_of(event), "task"))}});
}

void Translator::Making::end_thread(const session::ToolEnded& event) const {
  const session::Call* call = before.find_call(event.call);
  const bool is_known = call != nullptr && call->thread.status == session::ThreadStatus::kEnded &&
                        call->thread.seen > 0;
  if (!is_known) add_thread_idle(event.call, {{"type", "end_turn"}});
  if (event.outcome != session::ToolOutcome::kDone) return;
  add("agent.thread_message_received", {.seq = stored.seq, .part = Part::kThreadMessage},
      {{"from_session_thread_id", thread_of(event.call)},
       {"from_agent_name", translator.threads_.at(event.call)},
       {"content", text_blocks(event.shown.empty() ? event.text : event.shown)}});
}

void Translator::Making::operator()(const session::ThreadArchived& event) const {
  if (translator.threads_.contains(event.call)) close_thread(event.call);
}

// Once: by itself, or with its session.
void Translator::Making::close_thread(session::Seq call) const {
  if (!translator.closed_threads_.insert(call).second) return;
  add_thread_status(call, {.seq = call, .part = Part::kThreadEnd}, "terminated", Json::object());
}

void Translator::Making::operator()(const session::ThreadChanged& event) const {
  const session::Call* call = before.find_call(event.call);
  if (call == nullptr || !translator.threads_.contains(event.call)) return;
  for (const Json& post : blocks_of(event.posted))
    if (post.is_object()) add_post(event.call, post);
  const session::ThreadChanged& was = call->thread;
  if (was.seen > 0 && was.status == event.status && was.waits == event.waits) return;
  const EventId id{.seq = stored.seq, .part = Part::kThreadStatus};
  switch (event.status) {
    case session::ThreadStatus::kRunning:
      return add_thread_status(event.call, id, "running", Json::object());
    case session::ThreadStatus::kRescheduled:
      return add_thread_status(event.call, id, "rescheduled", Json::object());
    case session::ThreadStatus::kWaits:
      return add_thread_idle(
          event.call, {{"type", "requires_action"}, {"event_ids", translator.waits_of(event)}});
    case session::ThreadStatus::kEnded:
      return add_thread_idle(event.call, {{"type", stop_of(event.ended)}});
  }
}

void Translator::Making::add_thread_idle(session::Seq call, Json stop_reason) const {
  add_thread_status(call, {.seq = stored.seq, .part = Part::kThreadStatus}, "idle",
                    {{"stop_reason", std::move(stop_reason)}, {"stop_details", nullptr}});
}

void Translator::Making::add_thread_status(session::Seq call, EventId id, std::string_view word,
                                           Json fields) const {
  fields["session_thread_id"] = thread_of(call);
  fields["agent_name"] = translator.threads_.at(call);
  add(fmt::format("session.thread_status_{}", word).c_str(), id, std::move(fields));
}

// One of the agent's own events, under its own id, where whoever has to answer sees it.
void Translator::Making::add_post(session::Seq call, const Json& post) const {
  const std::string child = translator.child_of(call);
  const std::string type = text_at(post, "type");
  const auto id = [&](session::Seq seq) { return write_event_id(child, {.seq = seq}); };
  Json fields = {{"session_thread_id", thread_of(call)}};
  const session::Seq answered = number_at(post, "call");
  const char* name = "user.interrupt";
  if (type == "tool.called") {
    name = post_call(call, post, fields);
    translator.posted_[id(number_at(post, "seq"))] =
        std::string_view(name) == "agent.custom_tool_use";
  } else if (type == "user.decision") {
    fields["tool_use_id"] = id(answered);
    fields["result"] = post.value("allowed", false) ? "allow" : "deny";
    if (const std::string why = text_at(post, "message"); !why.empty())
      fields["deny_message"] = why;
    name = "user.tool_confirmation";
  } else if (type == "user.tool_result") {
    const auto known = translator.posted_.find(id(answered));
    const bool is_custom = known != translator.posted_.end() && known->second;
    fields[is_custom ? "custom_tool_use_id" : "tool_use_id"] = id(answered);
    fields["content"] = post.contains("content") ? post["content"] : Json::array();
    fields["is_error"] = post.value("is_error", false);
    name = is_custom ? "user.custom_tool_result" : "user.tool_result";
  }
  add_as(id(number_at(post, "seq")), name, std::move(fields));
}

// A call of the agent's that waits for somebody; which of the API's events it is.
const char* Translator::Making::post_call(session::Seq call, const Json& post, Json& fields) const {
  const session::AgentSpec& agent = agent_of(call);
  const std::string tool = text_at(post, "name");
  const std::string server = text_at(post, "server");
  fields["name"] = tool;
  fields["input"] = object_at(post, "input");
  const bool is_custom =
      std::ranges::find(agent.custom, tool, &session::CustomTool::name) != agent.custom.end();
  if (server.empty() && is_custom) return "agent.custom_tool_use";
  add_evaluation(fields, agent, {.name = tool, .server = server},
                 text_at(post, "waits_for") == "decision");
  if (server.empty()) return "agent.tool_use";
  fields["mcp_server_name"] = server;
  return "agent.mcp_tool_use";
}

}  // namespace pons::managed
