#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "making.h"
#include "pons/managed/fields.h"
#include "thread_id.h"

namespace pons::managed {

namespace {

using session::EndReason;
using session::Status;

bool has_budget(const session::AgentSpec& agent) {
  return agent.budget_nano > 0 || agent.budget_tokens > 0;
}

Json show_budget(std::int64_t budget_nano) {
  if (budget_nano <= 0) return nullptr;
  return {{"type", "limit"}, {"max_list_cost", write_money(budget_nano)}};
}

}  // namespace

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

void Translator::Making::operator()(const session::TurnEnded& event) const {
  if (event.reason == EndReason::kCallLimit)
    add_error("tool_use_limit_reached_error", "the turn reached its limit of calls of the model",
              "exhausted");
  if (event.reason == EndReason::kRetriesExhausted || event.reason == EndReason::kModelFailed)
    add_error(error_type_of(translator.fault_), event.message, "exhausted");
  const bool is_interrupted = event.reason == EndReason::kInterrupted;
  if (event.reason != EndReason::kBudgetReached)
    end_grading({.seq = stored.seq}, is_interrupted ? "interrupted" : "failed", event.message, {});
  // Whose money it is that is spent: the session's, or that of whom it belongs to.
  const bool is_own_budget = event.reason == EndReason::kBudgetReached && has_budget(after.agent);
  const bool is_others_budget = event.reason == EndReason::kBudgetReached && !is_own_budget;
  if (is_own_budget) end_without_money();
  if (is_others_budget) add_error("billing_error", event.message, "exhausted");
  if (translator.thread_ && !translator.last_said_.empty())
    add("agent.thread_message_sent", {.seq = stored.seq, .part = Part::kThreadMessage},
        {{"to_session_thread_id", write_thread_id(translator.thread_->primary)},
         {"content", text_blocks(translator.last_said_)}});
  add_idle({{"type", is_others_budget ? "retries_exhausted" : stop_of(event.reason)}},
           event.reason == EndReason::kRefusal);
}

// The first thread comes to rest, is charged, and the session with it.
void Translator::Making::end_without_money() const {
  if (!translator.thread_)
    add("session.thread_status_idle", {.seq = stored.seq, .part = Part::kThreadStatus},
        {{"session_thread_id", write_thread_id(translator.session_)},
         {"agent_name", after.agent.name},
         {"stop_reason", {{"type", "budget_reached"}}},
         {"stop_details", nullptr}});
  add_usage();
}

void Translator::Making::add_usage() const {
  add("session.usage", {.seq = stored.seq, .part = Part::kUsage},
      {{"usage",
        {{"input_tokens", after.usage.input},
         {"output_tokens", after.usage.output},
         {"cache_read_input_tokens", after.usage.cache_read},
         {"list_cost", write_money(after.usage.cost_nano)},
         {"active_seconds", after.active_ms / 1'000}}},
       {"budget", show_budget(after.agent.budget_nano)}});
}

void Translator::Making::add_idle(Json stop_reason, bool is_refusal) const {
  Json details = nullptr;
  if (is_refusal) details = {{"type", "refusal"}, {"category", nullptr}, {"explanation", nullptr}};
  add_status_as("idle",
                {{"stop_reason", std::move(stop_reason)}, {"stop_details", std::move(details)}});
}

// Of the session, or of the thread that the log is.
void Translator::Making::add_status_as(std::string_view word, Json fields) const {
  const EventId id{.seq = stored.seq, .part = Part::kStatus};
  if (!translator.thread_)
    return add(fmt::format("session.status_{}", word).c_str(), id, std::move(fields));
  fields["session_thread_id"] = write_thread_id(translator.session_);
  fields["agent_name"] = translator.thread_->agent;
  add(fmt::format("session.thread_status_{}", word).c_str(), id, std::move(fields));
}

void Translator::Making::add_status(const std::vector<std::string>& waited_before) const {
  const Status was = session::shown_status_of(before);
  const Status is = session::shown_status_of(after);
  if (is == Status::kIdle) return;  // said by the end of the turn
  const std::vector<std::string> waits = translator.waiting_calls();
  if (session::is_for_people(is)) {
    if (!session::is_for_people(was) || waits != waited_before)
      add_idle({{"type", "requires_action"}, {"event_ids", waits}}, false);
  } else if (was != is) {
    add_status_as(is == Status::kRescheduled ? "rescheduled" : "running", Json::object());
  }
}

// Only what has changed; metadata of which nothing is left is not said.
void Translator::Making::operator()(const session::Updated& event) const {
  translator.updated_ = stored.seq;
  const Json changes = parse_json(event.changes, {.depth = 128, .bytes = std::size_t{64} << 20})
                           .value_or(Json::object());
  if (!changes.is_object()) return;
  Json fields = Json::object();
  for (const char* name : {"title", "metadata", "agent"})
    if (const auto found = changes.find(name); found != changes.end()) fields[name] = *found;
  if (fields.contains("metadata") && fields["metadata"].empty()) fields.erase("metadata");
  if (const auto budget = changes.find("budget_nano");
      budget != changes.end() && budget->is_number_integer())
    fields["budget"] = show_budget(budget->get<std::int64_t>());
  add("session.updated", std::move(fields));
}

// In logs of older programs nothing else tells of it.
void Translator::Making::operator()(const session::AgentChanged&) const {
  if (translator.updated_ == 0 || translator.updated_ + 1 != stored.seq) add("session.updated");
}

// Its threads are put away with it.
void Translator::Making::operator()(const session::Archived&) const {
  for (const auto& [call, name] : translator.threads_) close_thread(call);
  add_status_as("terminated", Json::object());
  translator.is_over_ = true;
}

}  // namespace pons::managed
