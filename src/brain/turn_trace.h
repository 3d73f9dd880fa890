#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pons/session/event.h"
#include "pons/telemetry/span.h"

namespace pons::brain {

// The spans of one turn of a session, out of its events: the turn itself, each question to the
// model, each tool. Ids come of the session and the numbers of the events, so that whoever reads
// the same events makes the same trace. What was said, and with what a tool was called, is in none.
class TurnTrace {
 public:
  explicit TurnTrace(std::string session) : session_(std::move(session)) {}

  // Events in their order. A message that opens a turn begins a new trace.
  void add(const session::StoredEvent& stored);

  bool is_over() const { return end_.has_value(); }
  bool is_idle() const { return first_ == 0 && !resumed_; }  // no turn has begun
  session::Seq last() const { return last_; }                // event of it
  // Events before the first one that was added may belong to it: the session was taken up again.
  bool is_missing_events() const { return first_ == 0 || resumed_; }
  // Who does the work, if that was among the events.
  const std::optional<session::Created>& created() const { return created_; }
  void set_created(session::Created created) { created_ = std::move(created); }

  std::vector<telemetry::Span> spans() const;

 private:
  struct Piece {
    session::Seq seq = 0;
    bool is_model = false;
    std::string name;  // of the tool
    std::int64_t begun_ms = 0;
    std::optional<std::int64_t> ended_ms = std::nullopt;
    std::string error = {};
    std::vector<std::pair<std::string, telemetry::Span::Value>> attributes = {};
  };
  struct Noting;

  void begin(session::Seq seq, std::int64_t at_ms);
  void open(Piece piece);
  // Null when it is none of this turn's.
  Piece* close(session::Seq seq, std::int64_t at_ms);
  void add_usage(Piece& piece, const session::Usage& usage);
  telemetry::Span span_of(const Piece& piece, const std::string& trace) const;
  telemetry::Span turn_span(const std::string& trace) const;
  std::string words(session::Seq seq) const;

  std::string session_;
  std::optional<session::Created> created_;
  session::Seq first_ = 0;
  session::Seq last_ = 0;
  std::int64_t begun_ms_ = 0;
  std::int64_t ended_ms_ = 0;
  std::optional<session::EndReason> end_;
  bool resumed_ = false;
  session::Usage usage_;
  std::int64_t left_out_ = 0;  // pieces, past what one message takes
  std::vector<Piece> pieces_;
  std::map<session::Seq, std::size_t> open_;
};

}  // namespace pons::brain
