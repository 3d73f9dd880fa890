#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pons::models::responses {

// Takes the text out of {"input":"…"} while it is being written: the form in which the input of a
// free-form tool comes from a provider without such tools.
class FreeFormInput {
 public:
  // What the next piece adds to the text.
  std::string feed(std::string_view piece);
  // Whether the pieces have kept to the form so far, and the text has begun.
  bool has_begun() const { return state_ != State::kBefore && state_ != State::kOther; }

 private:
  enum class State : std::uint8_t { kBefore, kText, kEscape, kUnicode, kAfter, kOther };

  void take(char c, std::string& out);
  void take_before(char c);
  void take_escape(char c, std::string& out);
  void take_hex(char c, std::string& out);
  void take_unit(std::string& out);

  State state_ = State::kBefore;
  std::size_t matched_ = 0;  // of what stands before the text
  std::uint32_t unit_ = 0;   // the code unit that is being read
  int digits_ = 0;           // of it
  std::uint32_t high_ = 0;   // the first half of a pair whose second is to come
};

}  // namespace pons::models::responses
