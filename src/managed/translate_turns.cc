#include <algorithm>

#include <nlohmann/json.hpp>

#include "making.h"
#include "named_files.h"
#include "thread_id.h"

namespace pons::managed {

namespace {

using session::ModelFault;
using session::Trouble;

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

// The agent is in the middle of something: what is said now is read when that has come to an end.
bool is_at_work(const session::State& state) {
  return state.asked || state.equipping || state.wake_at_ms || !state.access.empty() ||
         !std::ranges::all_of(state.calls, &session::Call::ended);
}

}  // namespace

void Translator::Making::operator()(const session::UserMessage& event) const {
  if (translator.thread_ && event.dedupe == translator.thread_->primary)
    return add("agent.thread_message_received",
               {{"from_session_thread_id", write_thread_id(translator.thread_->primary)},
                {"content", blocks_of(event.content)}});
  Json fields = {{"content", with_names_of_files(blocks_of(event.content))}};
  const bool is_queued = before.turn_open && is_at_work(before);
  if (is_queued) fields["processed_at"] = nullptr;
  add(event.of_system ? "system.message" : "user.message", std::move(fields));
  out.back().is_queued = is_queued;
}

void Translator::Making::operator()(const session::Interrupted&) const {
  add("user.interrupt");
}

void Translator::Making::operator()(const session::OutcomeDefined& event) const {
  add("user.define_outcome", {{"outcome_id", event.id},
                              {"description", event.description},
                              {"rubric", {{"type", "text"}, {"content", event.rubric}}},
                              {"max_iterations", event.iterations_max}});
}

void Translator::Making::operator()(const session::ModelAsked& event) const {
  if (event.purpose != session::Purpose::kGrade) return add("span.model_request_start");
  const bool is_first = translator.grading_ == 0;
  if (is_first) translator.grading_ = stored.seq;
  add(is_first ? "span.outcome_evaluation_start" : "span.outcome_evaluation_ongoing",
      outcome_of(before));
}

Json Translator::Making::outcome_of(const session::State& state) {
  if (!state.outcome) return Json::object();
  return {{"outcome_id", state.outcome->wish.id}, {"iteration", state.outcome->iteration}};
}

void Translator::Making::operator()(const session::OutcomeGraded& event) const {
  const bool was_last = event.verdict == session::Verdict::kNeedsRevision && !after.outcome;
  end_grading({.seq = stored.seq},
              was_last ? "max_iterations_reached" : session::name_of(event.verdict),
              event.shown.empty() ? event.explanation : event.shown, event.usage);
}

void Translator::Making::end_grading(EventId id, std::string_view result,
                                     std::string_view explanation,
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

void Translator::Making::end_span(session::Seq asked, const session::Usage& usage,
                                  bool is_error) const {
  add("span.model_request_end", {.seq = asked, .part = Part::kSpanEnd},
      {{"model_request_start_id", translator.id_of({.seq = asked})},
       {"is_error", is_error},
       {"model_usage", usage_of(usage)}});
}

// The calls of the answer belong to the request, too: its end waits for them.
void Translator::Making::operator()(const session::ModelAnswered& event) const {
  if (has_thinking(blocks_of(event.shown.empty() ? event.content : event.shown)))
    add("agent.thinking", {.seq = event.asked, .part = Part::kThinking}, Json::object());
  if (!after.said.empty())
    add("agent.message", {.seq = event.asked, .part = Part::kMessage},
        {{"content", text_blocks(after.said)}});
  end_span(event.asked, event.usage, false);
  const bool has_calls =
      std::ranges::any_of(after.calls, [](const session::Call& call) { return call.seq == 0; });
  if (!has_calls) return;
  translator.held_end_ = std::move(out.back());
  out.pop_back();
}

void Translator::Making::operator()(const session::ContextSummarised& event) const {
  add("agent.thread_context_compacted");
  end_span(event.asked, event.usage, false);
}

void Translator::Making::operator()(const session::ModelFailed& event) const {
  const bool is_grade = before.asked && before.asked->purpose == session::Purpose::kGrade;
  if (!is_grade) end_span(event.asked, event.usage, event.trouble != Trouble::kInterrupted);
  translator.fault_ = event.trouble == Trouble::kPassing ? event.fault : ModelFault::kOther;
  if (event.trouble == Trouble::kPassing)
    add_error(error_type_of(event.fault), event.message, "retrying");
}

void Translator::Making::operator()(const session::Said& event) const {
  translator.last_said_ = event.text;
}

}  // namespace pons::managed
