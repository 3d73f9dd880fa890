#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "field_notes.h"
#include "pons/http/head.h"

namespace pons::http {

// Walks over the lines of one head. Only CRLF ends a line. A line is judged when its LF has
// arrived and not before, so a verdict does not depend on how the bytes were cut into reads.
class LineReader {
 public:
  enum class Outcome : std::uint8_t { kLine, kEndOfHead, kIncomplete, kRefused };

  LineReader(std::string_view window, std::size_t start)
      : begin_(window.data()), at_(window.data() + start), end_(window.data() + window.size()) {}

  Outcome read_start_line(const HeadLimits& limits, RequestHead& out);
  Outcome read_start_line(const HeadLimits& limits, ResponseHead& out);
  Outcome read_field_line(Field& out);

  std::size_t position() const { return static_cast<std::size_t>(at_ - begin_); }
  const Refusal& refusal() const { return refusal_; }

 private:
  // Ends the line at `at`, where its CRLF must stand; `fault` is what any other byte means.
  Outcome finish_line(const char* at, Refusal fault);
  // Refuses the line if it is complete.
  Outcome refuse(Refusal refusal);

  const char* begin_;
  const char* at_;  // start of the line to read next
  const char* end_;
  Refusal refusal_;
};

// How long a request line can be within its limits. A longer one is refused before it ends.
std::size_t request_line_limit(const HeadLimits& limits);

}  // namespace pons::http
