#include "outcome_shape.h"

#include <nlohmann/json.hpp>

#include "session_shape.h"

namespace pons::managed {

namespace {

constexpr std::int64_t kEventsMax = 10'000;

// Puts the outcomes together, one event after the other.
struct Telling {
  Json& outcomes;
  std::int64_t at_ms = 0;
  std::int64_t& iterations_left;

  void operator()(const session::OutcomeDefined& event) const {
    iterations_left = event.iterations_max;
    outcomes.push_back({{"type", "outcome_evaluation"},
                        {"outcome_id", event.id},
                        {"description", event.description},
                        {"iteration", 0},
                        {"result", "running"},
                        {"explanation", nullptr},
                        {"completed_at", nullptr}});
  }
  void operator()(const session::OutcomeGraded& event) const {
    if (!is_open()) return;
    outcomes.back()["explanation"] = event.shown.empty() ? event.explanation : event.shown;
    if (event.verdict != session::Verdict::kNeedsRevision)
      return end(session::name_of(event.verdict));
    if (--iterations_left <= 0) return end("max_iterations_reached");
    outcomes.back()["iteration"] = outcomes.back()["iteration"].get<std::int64_t>() + 1;
  }
  void operator()(const session::TurnEnded& event) const {
    if (!is_open() || event.reason == session::EndReason::kBudgetReached) return;
    end(event.reason == session::EndReason::kInterrupted ? "interrupted" : "failed");
  }
  void operator()(const auto&) const {}

  bool is_open() const { return !outcomes.empty() && outcomes.back()["completed_at"].is_null(); }
  void end(std::string_view result) const {
    outcomes.back()["result"] = result;
    outcomes.back()["completed_at"] = write_time(at_ms);
  }
};

Task<Result<std::vector<session::StoredEvent>>> read_outcomes(store::Store& store,
                                                              std::string session) {
  CO_TRY(const auto rows,
         co_await store.read({.sql = "SELECT seq, at, type, body FROM session_events "
                                     "WHERE session_id = $1 AND type IN ('outcome.defined', "
                                     "'outcome.graded', 'turn.ended') ORDER BY seq LIMIT $2",
                              .values = {std::move(session), kEventsMax}}));
  std::vector<session::StoredEvent> events;
  for (const store::Row& row : rows) {
    CO_TRY(const auto seq, store::integer_of(row, 0));
    CO_TRY(const auto at_ms, store::integer_of(row, 1));
    CO_TRY(const auto type, store::text_of(row, 2));
    CO_TRY(const auto body, store::text_of(row, 3));
    CO_TRY(auto event, session::read_event(type, body));
    events.push_back({.seq = seq, .at_ms = at_ms, .event = std::move(event)});
  }
  co_return events;
}

}  // namespace

Json show_outcomes(const std::vector<session::StoredEvent>& events) {
  Json outcomes = Json::array();
  std::int64_t iterations_left = 0;
  for (const session::StoredEvent& stored : events)
    std::visit(Telling{outcomes, stored.at_ms, iterations_left}, stored.event);
  return outcomes;
}

Task<Reply<Json>> present_session(Objects& objects, const SessionOrder& order,
                                  const session::Summary& summary) {
  CO_TRY(auto shown, show_session(order, summary));
  CO_TRY(const auto events, co_await read_outcomes(objects.store, order.session));
  shown["outcome_evaluations"] = show_outcomes(events);
  // As it was when the last turn had ended.
  std::int64_t active_ms = 0;
  for (const session::StoredEvent& stored : events)
    if (const auto* ended = std::get_if<session::TurnEnded>(&stored.event))
      active_ms = ended->active_ms;
  shown["stats"]["active_seconds"] = shown["usage"]["active_seconds"] = active_ms / 1'000;
  co_return shown;
}

}  // namespace pons::managed
