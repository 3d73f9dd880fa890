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
  // The question that a person has to answer now; 0: none.
  std::int64_t asked_call() const { return asked_call_; }
  const std::string& question() const { return question_; }
  void forget_question() { asked_call_ = 0; }
  const std::string& answer() const { return answer_; }
  // The sum of the last turn.
  std::string sum() const;

 private:
  void say(std::string_view who, const std::string& text);
  void step(std::int64_t took_ms, const std::string& text);
  void take_tool_end(const Json& event);

  Shows shows_;
  bool in_delta_ = false;
  std::string ended_;
  std::string answer_;
  std::int64_t asked_call_ = 0;
  std::string question_;
  std::int64_t begun_ms_ = 0;
  std::int64_t ended_ms_ = 0;
  std::int64_t model_calls_ = 0;
  std::int64_t tool_calls_ = 0;
  std::int64_t tokens_ = 0;
  std::map<std::int64_t, std::string> calls_;  // by number: what was called
};

}  // namespace pons::cli
