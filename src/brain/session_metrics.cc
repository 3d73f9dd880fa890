#include "session_metrics.h"

namespace pons::brain {

namespace {

using telemetry::Counter;
using telemetry::Page;
using telemetry::Series;

void write_series(Page& page, std::string_view name, std::string_view help, std::string_view label,
                  const Series<Counter>& series) {
  page.begin(name, Page::Type::kCounter, help);
  for (const auto& [values, count] : series.all())
    page.add({{label, values.front()}}, count.value());
}

}  // namespace

void SessionMetrics::observe(const std::vector<session::StoredEvent>& events) {
  for (const session::StoredEvent& stored : events) {
    events_.at({type_of(stored.event)}).add();
    if (const auto* ended = std::get_if<session::TurnEnded>(&stored.event))
      turns_.at({name_of(ended->reason)}).add();
    if (const auto* ended = std::get_if<session::ToolEnded>(&stored.event))
      tools_.at({name_of(ended->outcome)}).add();
    if (const auto* failed = std::get_if<session::ModelFailed>(&stored.event))
      failures_.at({name_of(failed->trouble)}).add();
    if (const auto* answered = std::get_if<session::ModelAnswered>(&stored.event))
      answers_.observe(std::chrono::milliseconds(answered->took_ms));
  }
}

void SessionMetrics::write(Page& page, std::size_t loaded) const {
  using enum Page::Type;
  page.begin("pons_sessions_loaded", kGauge, "Sessions that are at work, or were a moment ago.");
  page.add({}, loaded);
  write_series(page, "pons_session_events_total", "Events that were stored.", "type", events_);
  write_series(page, "pons_session_turns_total", "Turns that ended, by how.", "ended", turns_);
  write_series(page, "pons_session_tools_total", "Calls of tools that ended, by how.", "outcome",
               tools_);
  write_series(page, "pons_session_model_failures_total", "Questions without an answer, by why.",
               "trouble", failures_);
  page.begin("pons_session_answer_seconds", kHistogram, "From a question to the whole answer.");
  page.add({}, answers_);
}

}  // namespace pons::brain
