#pragma once

#include <string>
#include <vector>

#include "event_id.h"
#include "pons/base/json.h"
#include "pons/session/state.h"

namespace pons::managed {

// One event as clients of the API see it.
struct PublicEvent {
  EventId id;
  std::string type;
  std::int64_t at_ms = 0;
  std::string text;  // JSON
};

// Makes the API's events out of a session's log. It folds the log as it goes: that a session begins
// to work, or waits for somebody, is no event of the log but follows from what it adds up to.
class Translator {
 public:
  explicit Translator(std::string session) : session_(std::move(session)) {}

  // The next event of the log; every one of them, from the first on.
  std::vector<PublicEvent> take(const session::StoredEvent& stored);

  // A piece of the answer that is being given: "event_start" before the first one. When one comes
  // too early or too late to be shown, those behind it are not shown either: what clients have is
  // always a beginning of the answer.
  std::vector<PublicEvent> take_delta(session::Seq asked, std::string_view text);

  const session::State& state() const { return state_; }
  std::string id_of(EventId id) const { return write_event_id(session_, id); }

 private:
  struct Making;
  std::vector<std::string> waiting_calls() const;

  std::string session_;
  session::State state_;
  session::Seq previewed_ = 0;  // the question whose answer has begun to be shown
  session::Seq unshown_ = 0;    // the question whose answer is not shown before it is whole
};

}  // namespace pons::managed
