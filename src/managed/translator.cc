#include "translator.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "pons/managed/fields.h"
#include "pons/managed/query.h"
#include "pons/session/fold.h"
#include "pons/session/tools.h"

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

// Every call that the answer asks for has been begun, or will not be: what is waited for is all
// that is waited for.
bool are_all_begun(const session::State& state) {
  return std::ranges::none_of(state.calls, [](const session::Call& call) { return call.seq == 0; });
}

Status shown_status(const session::State& state) {
  const Status status = session::status_of(state);
  return status == Status::kWaitsForPerson && !are_all_begun(state) ? Status::kRunning : status;
}

}  // namespace

// One event of the log on its way to the API's.
struct Translator::Making {
  const Translator& translator;
  const session::StoredEvent& stored;
  const session::State& before;
  const session::State& after;
  std::vector<PublicEvent>& out;

  void add(const char* type, EventId id, Json fields) const {
    Json json = {
        {"id", translator.id_of(id)}, {"type", type}, {"processed_at", write_time(stored.at_ms)}};
    json.update(fields);
    out.push_back({.id = id, .type = type, .at_ms = stored.at_ms, .text = dump_json(json)});
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

  void operator()(const session::ModelAsked&) const { add("span.model_request_start"); }
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
    end_span(event.asked, event.usage, event.trouble != Trouble::kInterrupted);
    if (event.trouble == Trouble::kPassing)
      add_error(error_type_of(event.trouble), event.message, "retrying");
  }

  void operator()(const session::ToolCalled& event) const {
    const session::Call* call = after.find_call(stored.seq);
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
    if (event.reason == EndReason::kBudgetReached) add_usage();
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
    add("session.status_idle", {.seq = stored.seq, .part = Part::kStatus},
        {{"stop_reason", std::move(stop_reason)}, {"stop_details", std::move(details)}});
  }

  // What is nobody's business outside.
  void operator()(const auto&) const {}

  bool is_custom_tool(std::string_view name) const {
    return std::ranges::find(after.agent.custom, name, &session::CustomTool::name) !=
           after.agent.custom.end();
  }

  void add_status(const std::vector<std::string>& waited_before) const {
    const Status was = shown_status(before);
    const Status is = shown_status(after);
    if (is == Status::kIdle) return;  // said by the end of the turn
    const std::vector<std::string> waits = translator.waiting_calls();
    if (is == Status::kWaitsForPerson) {
      if (was != is || waits != waited_before)
        add_idle({{"type", "requires_action"}, {"event_ids", waits}}, false);
    } else if (was != is) {
      add(is == Status::kRescheduled ? "session.status_rescheduled" : "session.status_running",
          {.seq = stored.seq, .part = Part::kStatus}, Json::object());
    }
  }
};

std::vector<std::string> Translator::waiting_calls() const {
  std::vector<std::string> ids;
  for (const session::Call& call : state_.calls)
    if (call.is_open() && call.waits_for != session::WaitsFor::kNobody)
      ids.push_back(id_of({.seq = call.seq}));
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
  return out;
}

std::vector<PublicEvent> Translator::take_delta(session::Seq asked, std::string_view text) {
  const bool is_open = state_.asked && state_.asked->seq == asked;
  if (!is_open) unshown_ = asked;
  if (unshown_ == asked || state_.asked->purpose != session::Purpose::kReply) return {};
  const EventId id{.seq = state_.asked->seq, .part = Part::kMessage};
  std::vector<PublicEvent> out;
  if (previewed_ != id.seq)
    out.push_back({.id = id,
                   .type = "event_start",
                   .text = dump_json({{"type", "event_start"},
                                      {"event", {{"type", "agent.message"}, {"id", id_of(id)}}}})});
  previewed_ = id.seq;
  const Json content = {{"type", "text"}, {"text", text}};
  out.push_back(
      {.id = id,
       .type = "event_delta",
       .text = dump_json(
           {{"type", "event_delta"},
            {"event_id", id_of(id)},
            {"delta", {{"type", "content_delta"}, {"index", 0}, {"content", content}}}})});
  return out;
}

}  // namespace pons::managed
