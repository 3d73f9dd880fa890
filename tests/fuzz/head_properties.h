#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/check.h"
#include "pons/http/head.h"

// What holds for every head, whatever the bytes.
namespace pons::http {

inline void check_inside(std::string_view part, std::string_view whole) {
  if (part.empty()) return;
  CHECK(part.data() >= whole.data());
  CHECK(part.data() + part.size() <= whole.data() + whole.size());
}

template <class Message>
void check_same_head(const Message& a, const Message& b) {
  CHECK(a.minor_version == b.minor_version);
  CHECK(a.framing == b.framing);
  CHECK(a.content_length == b.content_length);
  CHECK(a.keep_alive == b.keep_alive);
  CHECK(a.upgrade == b.upgrade);
  CHECK(a.fields.size() == b.fields.size());
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    CHECK(a.fields[i].name == b.fields[i].name);
    CHECK(a.fields[i].value == b.fields[i].value);
  }
}

template <class Message>
void check_fields(const Message& head, std::string_view buffer, const HeadLimits& limits) {
  CHECK(head.fields.size() <= limits.fields);
  for (const Field& field : head.fields) {
    check_inside(field.name, buffer);
    check_inside(field.value, buffer);
    CHECK(is_token(field.name));
    CHECK(is_field_value(field.value));
    CHECK(head.find(field.name).has_value());
  }
}

// Shows `bytes` in growing pieces, each attempt in memory of its own and exact size. The last
// attempt stays in `memory`, into which `out` points.
template <class Message, class Parse>
HeadParse parse_in_pieces(std::string_view bytes, std::size_t piece_bytes, Parse parse,
                          std::vector<char>& memory, Message& out) {
  HeadParse last;
  std::size_t scanned = 0;
  for (std::size_t shown = 0; shown < bytes.size();) {
    shown += std::min(piece_bytes, bytes.size() - shown);
    memory = std::vector<char>(bytes.begin(), bytes.begin() + shown);
    last = parse(std::string_view(memory.data(), shown), scanned, out);
    if (last.state != HeadParse::State::kNeedMore) break;
  }
  return last;
}

// The verdict on the bytes in one piece, after checking that pieces of other sizes get the same.
template <class Message, class Parse, class Same>
HeadParse parse_every_way(std::string_view bytes, const HeadLimits& limits, Parse parse, Same same,
                          Message& out) {
  std::size_t scanned = 0;
  const HeadParse whole = parse(bytes, scanned, out);
  for (const std::size_t piece_bytes : {1, 5, 64}) {
    std::vector<char> memory;
    Message pieced;
    const auto verdict = parse_in_pieces(bytes, piece_bytes, parse, memory, pieced);
    CHECK(verdict.state == whole.state);
    CHECK(verdict.head_bytes == whole.head_bytes);
    CHECK(verdict.status == whole.status);
    CHECK(std::string_view(verdict.reason) == whole.reason);
    same(pieced, out);
  }
  CHECK((whole.state == HeadParse::State::kRefused) == (whole.status != 0));
  CHECK(whole.state != HeadParse::State::kNeedMore || bytes.size() < limits.bytes);
  CHECK(whole.head_bytes <= std::min(bytes.size(), limits.bytes));
  if (whole.state == HeadParse::State::kDone) {
    CHECK(bytes.substr(0, whole.head_bytes).ends_with("\r\n\r\n") || out.fields.empty());
    check_fields(out, bytes, limits);
  }
  return whole;
}

// Small enough for a fuzzer to meet each of them.
inline HeadLimits fuzz_limits(std::uint8_t choice) {
  if (choice % 4 == 0) return {.bytes = 200, .fields = 4, .target_bytes = 40};
  if (choice % 4 == 1) return {.bytes = 60, .fields = 2, .target_bytes = 80};
  return {};
}

}  // namespace pons::http
