#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "pons/base/json.h"

namespace pons::cli {

// A session's events as lines for people, with how long each step took.
class Timeline {
 public:
  enum class Shows : std::uint8_t {
    kNothing,  // only keeps count
    kSteps,
    kAll,  // also what is of interest only to whoever looks for a fault
  };
  explicit Timeline(Shows shows) : shows_(shows) {}

  void take(const Json& event);
  void take_delta(std::string_view text);

  // Of the last turn.
  const std::string& ended() const { return ended_; }
  bool is_over() const { return !ended_.empty(); }
  // What a person has to answer or to allow now, by the number of the call.
  struct Question {
    enum class Kind : std::uint8_t { kAnswer, kDecision } kind = Kind::kAnswer;
    std::string text;
  };
  const std::map<std::int64_t, Question>& open() const { return open_; }
  void forget_question(std::int64_t call) { open_.erase(call); }
  const std::string& answer() const { return answer_; }
  // The sum of the last turn.
  std::string sum() const;

 private:
  void say(std::string_view who, const std::string& text);
  void step(std::int64_t took_ms, const std::string& text);
  void take_call(const Json& event);
  void take_decision(const Json& event);
  void take_tool_end(const Json& event);
  void take_wish(const Json& event);

  Shows shows_;
  bool in_delta_ = false;
  std::string ended_;
  std::string answer_;
  std::map<std::int64_t, Question> open_;
  std::int64_t begun_ms_ = 0;
  std::int64_t ended_ms_ = 0;
  std::int64_t model_calls_ = 0;
  std::int64_t tool_calls_ = 0;
  std::int64_t tokens_ = 0;
  struct Called {
    std::string what;
    std::string question;  // of ask_human
  };
  std::map<std::int64_t, Called> calls_;        // by number
  std::map<std::string, std::int64_t> wishes_;  // of sandboxes: the numbers by their ids
};

}  // namespace pons::cli
