#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "translator.h"

namespace pons::managed {

// One event of the log on its way to the API's, with what the session was before it and is after
// it. What becomes of which event stands by what it is about: turns, calls, threads, statuses.
struct Translator::Making {
  Translator& translator;
  const session::StoredEvent& stored;
  const session::State& before;
  const session::State& after;
  std::vector<PublicEvent>& out;

  // ---- translate_turns.cc: what is said, asked and answered
  void operator()(const session::UserMessage& event) const;
  void operator()(const session::Interrupted& event) const;
  void operator()(const session::OutcomeDefined& event) const;
  void operator()(const session::OutcomeGraded& event) const;
  void operator()(const session::ModelAsked& event) const;
  void operator()(const session::ModelAnswered& event) const;
  void operator()(const session::ModelFailed& event) const;
  void operator()(const session::ContextSummarised& event) const;
  void operator()(const session::Said& event) const;
  // ---- translate_calls.cc: tools, and who allows them
  void operator()(const session::UserDecision& event) const;
  void operator()(const session::UserToolResult& event) const;
  void operator()(const session::ToolCalled& event) const;
  void operator()(const session::ToolEnded& event) const;
  void operator()(const session::AccessAsked& event) const;
  void operator()(const session::AccessEnded& event) const;
  void operator()(const session::ServerTrouble& event) const;
  // ---- translate_threads.cc: agents that do calls
  void operator()(const session::ThreadChanged& event) const;
  void operator()(const session::ThreadArchived& event) const;
  // ---- translate_status.cc: how the session is
  void operator()(const session::TurnEnded& event) const;
  void operator()(const session::AgentChanged& event) const;
  void operator()(const session::Updated& event) const;
  void operator()(const session::Archived& event) const;
  void add_status(const std::vector<std::string>& waited_before) const;
  // What is nobody's business outside.
  void operator()(const auto&) const {}

 private:
  // making.cc
  void add_as(std::string id, const char* type, Json fields) const;
  void add(const char* type, EventId id, Json fields) const;
  void add(const char* type, Json fields) const;
  void add(const char* type) const;
  std::string call_id(session::Seq call) const { return translator.id_of({.seq = call}); }
  void add_error(const char* type, std::string_view message, const char* retry) const;

  // translate_turns.cc
  static Json outcome_of(const session::State& state);
  void end_grading(EventId id, std::string_view result, std::string_view explanation,
                   const session::Usage& usage) const;
  void end_span(session::Seq asked, const session::Usage& usage, bool is_error) const;

  // translate_calls.cc
  bool is_custom_tool(std::string_view name) const;
  const session::Call* call_begun_by(const session::ToolCalled& event) const;
  void add_result(EventId id, const session::Call* call, session::Seq seq, std::string_view text,
                  bool is_error) const;

  // translate_threads.cc
  std::optional<std::string> agent_called(const session::ToolCalled& event) const;
  void add_thread(const std::string& agent, const session::ToolCalled& event) const;
  void end_thread(const session::ToolEnded& event) const;
  void close_thread(session::Seq call) const;
  void add_thread_idle(session::Seq call, Json stop_reason) const;
  void add_thread_status(session::Seq call, EventId id, std::string_view word, Json fields) const;
  void add_post(session::Seq call, const Json& post) const;
  const char* post_call(session::Seq call, const Json& post, Json& fields) const;
  const session::AgentSpec& agent_of(session::Seq call) const;
  std::string thread_of(session::Seq call) const;

  // translate_status.cc
  void end_without_money() const;
  void add_usage() const;
  void add_idle(Json stop_reason, bool is_refusal) const;
  void add_status_as(std::string_view word, Json fields) const;
};

const char* stop_of(session::EndReason reason);
// Of a "session.error".
const char* error_type_of(session::ModelFault fault);
Json text_blocks(std::string_view text);
// A list of content blocks; an empty one where there is none.
Json blocks_of(const std::string& content);
// What others may see of it; an object.
Json input_of(const session::ToolCalled& event);
std::string text_at(const Json& json, const char* key);

}  // namespace pons::managed
