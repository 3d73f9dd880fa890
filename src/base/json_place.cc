#include "pons/base/json_place.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons {
namespace {

// RFC 6901; what cannot be shown on one line is replaced.
std::string escape_key(std::string_view key) {
  std::string escaped;
  for (const char c : key.substr(0, 64)) {
    if (c == '~')
      escaped += "~0";
    else if (c == '/')
      escaped += "~1";
    else
      escaped += c < 0x20 || c == 0x7F ? '?' : c;  // also what is not ASCII
  }
  return escaped;
}

}  // namespace

JsonPlace JsonPlace::at(std::string_view key) const {
  static const Json kNothing;
  const auto found = value.find(key);
  return {found == value.end() ? kNothing : *found, pointer + "/" + escape_key(key)};
}

JsonPlace JsonPlace::at(std::size_t index) const {
  return {value.at(index), fmt::format("{}/{}", pointer, index)};
}

Error JsonPlace::refuse(std::string_view why) const {
  return make_error(ErrorCode::kInvalid, "read policy",
                    fmt::format("{}: {}", pointer.empty() ? "the document" : pointer, why));
}

Result<void> JsonPlace::expect_object(std::initializer_list<std::string_view> known_keys) const {
  if (!value.is_object()) return refuse("must be an object");
  for (const auto& [key, ignored] : value.items()) {
    if (std::ranges::find(known_keys, key) != known_keys.end()) continue;
    const auto meant = nearest_match(key, known_keys);
    return at(key).refuse(
        meant ? fmt::format("unknown key; did you mean \"{}\"?", *meant)
              : fmt::format("unknown key; there are {}", fmt::join(known_keys, ", ")));
  }
  return {};
}

Result<void> JsonPlace::expect_list(std::size_t entries_max) const {
  if (!value.is_array()) return refuse("must be a list");
  if (value.size() > entries_max)
    return refuse(fmt::format("has {} entries, at most {} are allowed", value.size(), entries_max));
  return {};
}

Result<std::string> JsonPlace::text() const {
  if (!value.is_string()) return refuse("must be text");
  return value.get<std::string>();
}

Result<bool> JsonPlace::flag() const {
  if (!value.is_boolean()) return refuse("must be true or false");
  return value.get<bool>();
}

Result<std::uint64_t> JsonPlace::number(std::uint64_t min, std::uint64_t max) const {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() >= min &&
                    value.get<std::uint64_t>() <= max;
  if (!fits) return refuse(fmt::format("must be a whole number from {} to {}", min, max));
  return value.get<std::uint64_t>();
}

}  // namespace pons
