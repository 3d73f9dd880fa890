#include "translator.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/managed/fields.h"
#include "pons/managed/query.h"
#include "pons/session/call_id.h"
#include "pons/session/decide.h"
#include "pons/session/fold.h"
#include "pons/session/tools.h"
#include "thread_id.h"

namespace pons::managed {

namespace {

using session::EndReason;
using session::Status;
using session::Trouble;

Json text_blocks(std::string_view text) {
  return Json::array({{{"type", "text"}, {"text", text}}});
}

Json blocks_of(const std::string& content) {
  auto blocks =
      parse_json(content.empty() ? "[]" : content, {.depth = 128, .bytes = std::size_t{64} << 20});
  return blocks && blocks->is_array() ? std::move(*blocks) : Json::array();
}

bool has_thinking(const Json& blocks) {
  return std::ranges::any_of(blocks, [](const Json& block) {
    return block.is_object() && (block.value("type", "") == "thinking" ||
                                 block.value("type", "") == "redacted_thinking");
  });
}

Json usage_of(const session::Usage& usage) {
  return {{"input_tokens", usage.input},
          {"output_tokens", usage.output},
          {"cache_read_input_tokens", usage.cache_read},
          {"cache_creation_input_tokens", usage.cache_write}};
}

const char* error_type_of(Trouble trouble) {
  switch (trouble) {
    case Trouble::kPassing:
      return "model_overloaded_error";
    case Trouble::kBudget:
      return "billing_error";
    default:
      return "model_request_failed_error";
  }
}

// What a person has to look at first is no failure to connect, but there is no nearer word.
const char* error_type_of(session::ServerFault fault) {
  return fault == session::ServerFault::kAuthentication ? "mcp_authentication_failed_error"
                                                        : "mcp_connection_failed_error";
}

const char* stop_of(EndReason reason) {
  switch (reason) {
    case EndReason::kEndTurn:
    case EndReason::kInterrupted:
    case EndReason::kAnswerCutOff:
      return "end_turn";
    case EndReason::kBudgetReached:
      return "budget_reached";
    case EndReason::kRefusal:
      return "refusal";
    case EndReason::kCallLimit:
    case EndReason::kRetriesExhausted:
    case EndReason::kModelFailed:
      return "retries_exhausted";
  }
  return "end_turn";
}

bool is_waiting(Status status) {
  return status == Status::kWaitsForPerson || status == Status::kWaitsInThread;
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

session::Seq number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<session::Seq>() : 0;
}

}  // namespace

// One event of the log on its way to the API's.
struct Translator::Making {
  Translator& translator;
  const session::StoredEvent& stored;
  const session::State& before;
  const session::State& after;
  std::vector<PublicEvent>& out;

  void add_as(std::string id, const char* type, Json fields) const {
    Json json = {{"id", id}, {"type", type}, {"processed_at", write_time(stored.at_ms)}};
    json.update(fields);
    out.push_back(
        {.id = std::move(id), .type = type, .at_ms = stored.at_ms, .text = dump_json(json)});
  }
  void add(const char* type, EventId id, Json fields) const {
    add_as(translator.id_of(id), type, std::move(fields));
  }
  void add(const char* type, Json fields = Json::object()) const {
    add(type, {.seq = stored.seq}, std::move(fields));
  }
  std::string call_id(session::Seq call) const { return translator.id_of({.seq = call}); }

  void add_error(const char* type, std::string_view message, const char* retry) const {
    add("session.error", {.seq = stored.seq, .part = Part::kError},
        {{"error", {{"type", type}, {"message", message}, {"retry_status", {{"type", retry}}}}}});
  }
  void end_span(session::Seq asked, const session::Usage& usage, bool is_error) const {
    add("span.model_request_end", {.seq = asked, .part = Part::kSpanEnd},
        {{"model_request_start_id", translator.id_of({.seq = asked})},
         {"is_error", is_error},
         {"model_usage", usage_of(usage)}});
  }

  void operator()(const session::UserMessage& event) const {
    if (translator.thread_ && event.dedupe == translator.thread_->primary)
      return add("agent.thread_message_received",
                 {{"from_session_thread_id", write_thread_id(translator.thread_->primary)},
                  {"content", blocks_of(event.content)}});
    add(event.of_system ? "system.message" : "user.message",
        {{"content", blocks_of(event.content)}});
  }
  void operator()(const session::Interrupted&) const { add("user.interrupt"); }
  void operator()(const session::UserDecision& event) const {
    Json fields = {{"tool_use_id", call_id(event.call)},
                   {"result", event.allowed ? "allow" : "deny"}};
    if (!event.message.empty()) fields["deny_message"] = event.message;
    add("user.tool_confirmation", std::move(fields));
    if (event.allowed) return;
    const session::Call* call = after.find_call(event.call);
    add_result({.seq = stored.seq, .part = Part::kMessage}, call, event.call,
               call == nullptr ? "" : call->result, true);
  }
  void operator()(const session::UserToolResult& event) const {
    const session::Call* call = before.find_call(event.call);
    const bool is_custom = call == nullptr || is_custom_tool(call->name);
    add(is_custom ? "user.custom_tool_result" : "user.tool_result",
        {{is_custom ? "custom_tool_use_id" : "tool_use_id", call_id(event.call)},
         {"content", blocks_of(event.content)},
         {"is_error", event.is_error}});
  }
  void operator()(const session::AgentChanged&) const { add("session.updated"); }
  void operator()(const session::OutcomeDefined& event) const {
    add("user.define_outcome", {{"outcome_id", event.id},
                                {"description", event.description},
                                {"rubric", {{"type", "text"}, {"content", event.rubric}}},
                                {"max_iterations", event.iterations_max}});
  }

  void operator()(const session::ModelAsked& event) const {
    if (event.purpose != session::Purpose::kGrade) return add("span.model_request_start");
    const bool is_first = translator.grading_ == 0;
    if (is_first) translator.grading_ = stored.seq;
    add(is_first ? "span.outcome_evaluation_start" : "span.outcome_evaluation_ongoing",
        outcome_of(before));
  }
  static Json outcome_of(const session::State& state) {
    if (!state.outcome) return Json::object();
    return {{"outcome_id", state.outcome->wish.id}, {"iteration", state.outcome->iteration}};
  }
  void operator()(const session::OutcomeGraded& event) const {
    const bool was_last = event.verdict == session::Verdict::kNeedsRevision && !after.outcome;
    end_grading({.seq = stored.seq},
                was_last ? "max_iterations_reached" : session::name_of(event.verdict),
                event.shown.empty() ? event.explanation : event.shown, event.usage);
  }
  void end_grading(EventId id, std::string_view result, std::string_view explanation,
                   const session::Usage& usage) const {
    if (translator.grading_ == 0) return;
    Json fields = outcome_of(before);
    fields["outcome_evaluation_start_id"] = translator.id_of({.seq = translator.grading_});
    fields["result"] = result;
    fields["explanation"] = explanation;
    fields["usage"] = usage_of(usage);
    translator.grading_ = 0;
    add("span.outcome_evaluation_end", id, std::move(fields));
  }
  void operator()(const session::ModelAnswered& event) const {
    if (has_thinking(blocks_of(event.shown.empty() ? event.content : event.shown)))
      add("agent.thinking", {.seq = event.asked, .part = Part::kThinking}, Json::object());
    if (!after.said.empty())
      add("agent.message", {.seq = event.asked, .part = Part::kMessage},
          {{"content", text_blocks(after.said)}});
    end_span(event.asked, event.usage, false);
  }
  void operator()(const session::ContextSummarised& event) const {
    add("agent.thread_context_compacted");
    end_span(event.asked, event.usage, false);
  }
  void operator()(const session::ModelFailed& event) const {
    const bool is_grade = before.asked && before.asked->purpose == session::Purpose::kGrade;
    if (!is_grade) end_span(event.asked, event.usage, event.trouble != Trouble::kInterrupted);
    if (event.trouble == Trouble::kPassing)
      add_error(error_type_of(event.trouble), event.message, "retrying");
  }

  void operator()(const session::ToolCalled& event) const {
    const session::Call* call = after.find_call(stored.seq);
    if (const auto agent = agent_called(event)) return add_thread(*agent, event);
    const Json input =
        parse_json(event.shown.empty() ? event.input : event.shown).value_or(Json::object());
    Json fields = {{"name", event.name},
                   {"input", input.is_object() ? input : Json::object()},
                   {"session_thread_id", nullptr}};
    if (is_custom_tool(event.name)) {
      add("agent.custom_tool_use", std::move(fields));
      return;
    }
    const bool asks = call != nullptr && call->waits_for == session::WaitsFor::kDecision;
    fields["evaluated_permission"] = asks ? "ask" : "allow";
    fields["evaluation"] = {{"type", asks ? "always_ask" : "always_allow"}};
    const bool is_server = call != nullptr && !call->server.empty();
    if (is_server) {
      fields["name"] = call->server_name;
      fields["mcp_server_name"] = call->server;
    }
    add(is_server ? "agent.mcp_tool_use" : "agent.tool_use", std::move(fields));
  }
  void operator()(const session::ToolEnded& event) const {
    if (translator.threads_.contains(event.call)) return end_thread(event);
    add_result({.seq = stored.seq}, after.find_call(event.call), event.call,
               event.shown.empty() ? event.text : event.shown, event.is_error);
  }
  void add_result(EventId id, const session::Call* call, session::Seq seq, std::string_view text,
                  bool is_error) const {
    const bool is_server = call != nullptr && !call->server.empty();
    add(is_server ? "agent.mcp_tool_result" : "agent.tool_result", id,
        {{is_server ? "mcp_tool_use_id" : "tool_use_id", call_id(seq)},
         {"content", text_blocks(text)},
         {"is_error", is_error}});
  }

  // The turn goes on without its tools; the next one tries again.
  void operator()(const session::ServerTrouble& event) const {
    add("session.error", {.seq = stored.seq, .part = Part::kError},
        {{"error",
          {{"type", error_type_of(event.fault)},
           {"message", event.message},
           {"mcp_server_name", event.server},
           {"retry_status", {{"type", "retrying"}}}}}});
  }

  void operator()(const session::TurnEnded& event) const {
    if (event.reason == EndReason::kCallLimit)
      add_error("tool_use_limit_reached_error", "the turn reached its limit of calls of the model",
                "exhausted");
    if (event.reason == EndReason::kRetriesExhausted || event.reason == EndReason::kModelFailed)
      add_error("model_request_failed_error", event.message, "exhausted");
    const bool is_interrupted = event.reason == EndReason::kInterrupted;
    if (event.reason != EndReason::kBudgetReached)
      end_grading({.seq = stored.seq}, is_interrupted ? "interrupted" : "failed", event.message,
                  {});
    if (event.reason == EndReason::kBudgetReached) add_usage();
    if (translator.thread_ && !translator.last_said_.empty())
      add("agent.thread_message_sent", {.seq = stored.seq, .part = Part::kThreadMessage},
          {{"to_session_thread_id", write_thread_id(translator.thread_->primary)},
           {"content", text_blocks(translator.last_said_)}});
    add_idle({{"type", stop_of(event.reason)}}, event.reason == EndReason::kRefusal);
  }
  void add_usage() const {
    Json usage = usage_of(after.usage);
    usage.erase("cache_creation_input_tokens");
    usage["list_cost"] = write_money(after.usage.cost_nano);
    Json budget = nullptr;
    if (after.agent.budget_nano > 0)
      budget = {{"type", "limit"}, {"max_list_cost", write_money(after.agent.budget_nano)}};
    add("session.usage", {.seq = stored.seq, .part = Part::kUsage},
        {{"usage", std::move(usage)}, {"budget", std::move(budget)}});
  }
  void add_idle(Json stop_reason, bool is_refusal) const {
    Json details = nullptr;
    if (is_refusal)
      details = {{"type", "refusal"}, {"category", nullptr}, {"explanation", nullptr}};
    add_status_as("idle",
                  {{"stop_reason", std::move(stop_reason)}, {"stop_details", std::move(details)}});
  }
  // Of the session, or of the thread that the log is.
  void add_status_as(std::string_view word, Json fields) const {
    const EventId id{.seq = stored.seq, .part = Part::kStatus};
    if (!translator.thread_)
      return add(fmt::format("session.status_{}", word).c_str(), id, std::move(fields));
    fields["session_thread_id"] = write_thread_id(translator.session_);
    fields["agent_name"] = translator.thread_->agent;
    add(fmt::format("session.thread_status_{}", word).c_str(), id, std::move(fields));
  }

  // ---- agents that do calls

  // The name of the agent that the call is given to; nothing when it is no such call, or refused.
  std::optional<std::string> agent_called(const session::ToolCalled& event) const {
    if (event.name != session::kSpawnAgent || !before.agent.has_threads) return std::nullopt;
    const auto call = std::ranges::find_if(before.calls, [&](const session::Call& each) {
      return each.seq == 0 && each.block == event.block;
    });
    if (call == before.calls.end() || session::refusal_of(before, *call)) return std::nullopt;
    const auto task = session::read_task(before.agent, call->input);
    if (!task) return std::nullopt;
    return task->agent.empty() ? std::string(session::kInlineAgent) : task->agent;
  }
  void add_thread(const std::string& agent, const session::ToolCalled& event) const {
    translator.threads_[stored.seq] = agent;
    const std::string thread = thread_of(stored.seq);
    add("session.thread_created",
        {{"session_thread_id", thread}, {"agent_name", agent}, {"workflow_run_id", nullptr}});
    const Json input =
        parse_json(event.shown.empty() ? event.input : event.shown).value_or(Json::object());
    add("agent.thread_message_sent", {.seq = stored.seq, .part = Part::kThreadMessage},
        {{"to_session_thread_id", thread},
         {"to_agent_name", agent},
         {"content", text_blocks(input.is_object() ? text_at(input, "task") : "")}});
  }
  void end_thread(const session::ToolEnded& event) const {
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
  void operator()(const session::ThreadChanged& event) const {
    const session::Call* call = before.find_call(event.call);
    if (call == nullptr || !translator.threads_.contains(event.call)) return;
    for (const Json& post : blocks_of(event.posted))
      if (post.is_object()) add_post(event.call, post);
    const session::ThreadChanged& was = call->thread;
    if (was.seen > 0 && was.status == event.status && was.waits == event.waits) return;
    switch (event.status) {
      case session::ThreadStatus::kRunning:
        return add_thread_status(event.call, "running", Json::object());
      case session::ThreadStatus::kRescheduled:
        return add_thread_status(event.call, "rescheduled", Json::object());
      case session::ThreadStatus::kWaits:
        return add_thread_idle(event.call,
                               {{"type", "requires_action"}, {"event_ids", waits_of(event)}});
      case session::ThreadStatus::kEnded:
        return add_thread_idle(event.call, {{"type", stop_of(event.ended)}});
    }
  }
  std::vector<std::string> waits_of(const session::ThreadChanged& event) const {
    return translator.waits_of(event);
  }
  void add_thread_idle(session::Seq call, Json stop_reason) const {
    add_thread_status(call, "idle",
                      {{"stop_reason", std::move(stop_reason)}, {"stop_details", nullptr}});
  }
  void add_thread_status(session::Seq call, std::string_view word, Json fields) const {
    fields["session_thread_id"] = thread_of(call);
    fields["agent_name"] = translator.threads_.at(call);
    add(fmt::format("session.thread_status_{}", word).c_str(),
        {.seq = stored.seq, .part = Part::kThreadStatus}, std::move(fields));
  }
  // One of the agent's own events, under its own id, where whoever has to answer sees it.
  void add_post(session::Seq call, const Json& post) const {
    const std::string child = translator.child_of(call);
    const std::string type = text_at(post, "type");
    const auto id = [&](session::Seq seq) { return write_event_id(child, {.seq = seq}); };
    Json fields = {{"session_thread_id", thread_of(call)}};
    const session::Seq answered = number_at(post, "call");
    const char* name = "user.interrupt";
    if (type == "tool.called") {
      const std::string tool = text_at(post, "name");
      const bool is_custom = is_custom_tool_of(call, tool);
      const bool asks = text_at(post, "waits_for") == "decision";
      fields["name"] = tool;
      fields["input"] =
          post.contains("input") && post["input"].is_object() ? post["input"] : Json::object();
      if (!is_custom) {
        fields["evaluated_permission"] = asks ? "ask" : "allow";
        fields["evaluation"] = {{"type", asks ? "always_ask" : "always_allow"}};
      }
      name = is_custom ? "agent.custom_tool_use" : "agent.tool_use";
      translator.posted_[id(number_at(post, "seq"))] = is_custom;
    } else if (type == "user.decision") {
      const bool is_allowed = post.value("allowed", false);
      fields["tool_use_id"] = id(answered);
      fields["result"] = is_allowed ? "allow" : "deny";
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
  bool is_custom_tool_of(session::Seq call, std::string_view tool) const {
    const session::AgentSpec* member = after.agent.members.find(translator.threads_.at(call));
    const session::AgentSpec& agent = member == nullptr ? after.agent : *member;
    return std::ranges::find(agent.custom, tool, &session::CustomTool::name) != agent.custom.end();
  }
  std::string thread_of(session::Seq call) const {
    return write_thread_id(translator.child_of(call));
  }
  void operator()(const session::Said& event) const { translator.last_said_ = event.text; }

  // What is nobody's business outside.
  void operator()(const auto&) const {}

  bool is_custom_tool(std::string_view name) const {
    return std::ranges::find(after.agent.custom, name, &session::CustomTool::name) !=
           after.agent.custom.end();
  }

  void add_status(const std::vector<std::string>& waited_before) const {
    const Status was = session::shown_status_of(before);
    const Status is = session::shown_status_of(after);
    if (is == Status::kIdle) return;  // said by the end of the turn
    const std::vector<std::string> waits = translator.waiting_calls();
    if (is_waiting(is)) {
      if (!is_waiting(was) || waits != waited_before)
        add_idle({{"type", "requires_action"}, {"event_ids", waits}}, false);
    } else if (was != is) {
      add_status_as(is == Status::kRescheduled ? "rescheduled" : "running", Json::object());
    }
  }
};

std::vector<std::string> Translator::waiting_calls() const {
  std::vector<std::string> ids;
  for (const session::Call& call : state_.calls) {
    if (!call.is_open()) continue;
    if (call.waits_for != session::WaitsFor::kNobody) ids.push_back(id_of({.seq = call.seq}));
    if (call.thread.status == session::ThreadStatus::kWaits)
      std::ranges::move(waits_of(call.thread), std::back_inserter(ids));
  }
  return ids;
}

std::string Translator::child_of(session::Seq call) const {
  return session::child_session_of(session_, call);
}

std::vector<std::string> Translator::waits_of(const session::ThreadChanged& thread) const {
  const std::string child = child_of(thread.call);
  std::vector<std::string> ids;
  for (const session::Seq seq : thread.waits) ids.push_back(write_event_id(child, {.seq = seq}));
  return ids;
}

std::vector<PublicEvent> Translator::take(const session::StoredEvent& stored) {
  const session::State before = state_;
  const std::vector<std::string> waited = waiting_calls();
  session::fold(state_, stored);
  std::vector<PublicEvent> out;
  const Making making{*this, stored, before, state_, out};
  std::visit(making, stored.event);
  making.add_status(waited);
  forget_what_was_said();
  return out;
}

// Nothing of it is needed to go on, and there may be a translator for each of a thousand clients.
void Translator::forget_what_was_said() {
  state_.messages.clear();
  state_.dedupe.clear();
  state_.agent.system.clear();
  for (session::UserMessage& message : state_.unread) message.content.clear();
}

std::vector<PublicEvent> Translator::take_delta(session::Seq asked, std::string_view text) {
  const bool is_open = state_.asked && state_.asked->seq == asked;
  if (!is_open) unshown_ = asked;
  if (unshown_ == asked || state_.asked->purpose != session::Purpose::kReply) return {};
  const EventId id{.seq = state_.asked->seq, .part = Part::kMessage};
  std::vector<PublicEvent> out;
  if (previewed_ != id.seq)
    out.push_back({.id = {},
                   .type = "event_start",
                   .text = dump_json({{"type", "event_start"},
                                      {"event", {{"type", "agent.message"}, {"id", id_of(id)}}}})});
  previewed_ = id.seq;
  const Json content = {{"type", "text"}, {"text", text}};
  out.push_back(
      {.id = {},
       .type = "event_delta",
       .text = dump_json(
           {{"type", "event_delta"},
            {"event_id", id_of(id)},
            {"delta", {{"type", "content_delta"}, {"index", 0}, {"content", content}}}})});
  return out;
}

}  // namespace pons::managed
