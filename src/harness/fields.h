#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"

// Members of what a harness wrote, which may be missing or of another kind: then they are empty.

namespace pons::harness {

inline const Json& member(const Json& object, const char* key) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

inline std::string text_at(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// Counts of all kinds, which may be added and subtracted without a thought.
inline std::int64_t number_at(const Json& object, const char* key) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // as far as JSON's numbers are exact
  const Json& value = member(object, key);
  return value.is_number_integer() ? std::clamp(value.get<std::int64_t>(), -kMost, kMost) : 0;
}

inline bool flag_at(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_boolean() && value.get<bool>();
}

inline std::string object_text(const Json& value) {
  return value.is_object() ? dump_json(value) : "{}";
}

// The text of a list of content blocks, or of a plain text.
inline std::string content_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) return text;
  for (const Json& block : content) {
    const std::string part = text_at(block, "text");
    if (part.empty()) continue;
    if (!text.empty()) text += '\n';
    text += part;
  }
  return text;
}

// A line of a harness: hostile, an object or nothing.
inline Result<Json> read_line(std::string_view line) {
  Json json = TRY(parse_json(line, {.depth = 128, .bytes = std::size_t{16} << 20}));
  if (!json.is_object())
    return make_error(ErrorCode::kInvalid, "read harness", "a message is an object");
  return json;
}

}  // namespace pons::harness
