#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/harness/adapter.h"
#include "pons/harness/event.h"

namespace pons::harness {

// One process of a harness, from its bytes to events that can be relied on, whatever it says:
// - nothing but Ready and ToolsOffered comes outside of a turn, and Idle ends each turn, once;
// - a ToolResult belongs to a ToolCall before it, and all calls have one when the turn ends;
// - ids that are asked for an answer are new, and are answered once;
// - numbers and texts are within limits.
// Bytes that are none of the protocol's are passed over, up to a limit; beyond it the harness is
// broken, and is to be ended.
class Conversation {
 public:
  static constexpr std::size_t kLineBytesMax = 16 << 20;
  static constexpr std::size_t kGarbageLinesMax = 200;
  static constexpr std::size_t kOpenMax = 256;  // calls and questions under way
  static constexpr std::size_t kMessageBytesMax = 4 << 20;

  explicit Conversation(std::unique_ptr<Adapter> adapter);

  Capabilities capabilities() const { return adapter_->capabilities(); }
  bool is_ready() const { return is_ready_; }
  bool is_in_turn() const { return in_turn_; }
  bool is_broken() const { return is_broken_; }
  // Of the harness' own, from Ready on.
  const std::string& session() const { return session_; }
  // The last lines that were none of the protocol's, for people.
  const std::deque<std::string>& garbage() const { return garbage_; }

  Output start();
  Output feed(std::string_view bytes);
  // Begins a turn; before Ready it waits for that. kConflict: a turn is under way. kUnavailable:
  // broken or ended.
  Result<Output> send(std::string text);
  // Of the turn under way; nothing otherwise.
  Output interrupt();
  Output decide(const std::string& id, const Decision& decision);
  Output answer(const std::string& id, const ToolAnswer& answer);
  // The process is gone; `why` is for people. A turn under way ends as failed, or as interrupted
  // when that was asked for.
  Output ended(std::string_view why);

 private:
  struct Judge;  // of single events

  void take_line(std::string_view line, Output& out);
  void note_garbage(std::string_view line, Output& out);
  void give_up(std::string message, Output& out);
  void pass_on(std::vector<Event> events, Output& out);
  void end_turn(Ending ending, Output& out);

  std::unique_ptr<Adapter> adapter_;
  std::string line_;  // so far
  std::string session_;
  std::string waiting_;  // a message for which it is too early
  bool has_waiting_ = false;
  bool is_ready_ = false;
  bool is_broken_ = false;
  bool in_turn_ = false;
  bool is_interrupted_ = false;  // asked to be, in this turn
  bool has_told_why_ = false;    // this turn will come to nothing
  std::set<std::string> open_calls_;
  std::set<std::string> open_questions_;
  std::set<std::string> open_requests_;
  std::deque<std::string> garbage_;
  std::size_t garbage_lines_ = 0;
};

}  // namespace pons::harness
