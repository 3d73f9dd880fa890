#include "responses/free_form_input.h"

namespace pons::models::responses {

namespace {

void append_code_point(std::string& out, std::uint32_t point) {
  const auto tail = [&](unsigned shift) {
    out += static_cast<char>(0x80U | ((point >> shift) & 0x3FU));
  };
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xC0U | (point >> 6U));
    tail(0);
  } else if (point < 0x10000) {
    out += static_cast<char>(0xE0U | (point >> 12U));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0U | (point >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr std::uint32_t kReplacement = 0xFFFD;

}  // namespace

std::string FreeFormInput::feed(std::string_view piece) {
  std::string out;
  for (const char c : piece) take(c, out);
  return out;
}

void FreeFormInput::take(char c, std::string& out) {
  switch (state_) {
    case State::kBefore:
      take_before(c);
      return;
    case State::kText:
      if (c == '\\') {
        state_ = State::kEscape;
        return;
      }
      if (high_ != 0) append_code_point(out, kReplacement);
      high_ = 0;
      if (c == '"')
        state_ = State::kAfter;
      else
        out += c;
      return;
    case State::kEscape:
      take_escape(c, out);
      return;
    case State::kUnicode:
      take_hex(c, out);
      return;
    case State::kAfter:
    case State::kOther:
      return;
  }
}

void FreeFormInput::take_before(char c) {
  constexpr std::string_view kBefore = "{\"input\":\"";
  if (c == ' ' || c == '\n' || c == '\t' || c == '\r') return;
  if (c != kBefore[matched_])
    state_ = State::kOther;
  else if (++matched_ == kBefore.size())
    state_ = State::kText;
}

void FreeFormInput::take_escape(char c, std::string& out) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (c == 'u') {
    state_ = State::kUnicode;
    unit_ = 0;
    digits_ = 0;
    return;
  }
  if (high_ != 0) append_code_point(out, kReplacement);
  high_ = 0;
  const auto at = kEscapes.find(c);
  if (at != std::string_view::npos) out += kMeanings[at];
  state_ = State::kText;
}

void FreeFormInput::take_hex(char c, std::string& out) {
  const int value = hex_value(c);
  if (value < 0) {
    state_ = State::kText;
    append_code_point(out, kReplacement);
    return;
  }
  unit_ = (unit_ << 4U) | static_cast<std::uint32_t>(value);
  if (++digits_ < 4) return;
  state_ = State::kText;
  take_unit(out);
}

void FreeFormInput::take_unit(std::string& out) {
  const bool is_low = unit_ >= 0xDC00 && unit_ < 0xE000;
  if (high_ != 0 && is_low) {
    append_code_point(out, 0x10000 + ((high_ - 0xD800) << 10U) + (unit_ - 0xDC00));
    high_ = 0;
    return;
  }
  if (high_ != 0) append_code_point(out, kReplacement);
  high_ = unit_ >= 0xD800 && unit_ < 0xDC00 ? unit_ : 0;
  if (high_ == 0) append_code_point(out, is_low ? kReplacement : unit_);
}

}  // namespace pons::models::responses
