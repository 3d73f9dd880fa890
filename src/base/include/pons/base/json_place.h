#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/result.h"

namespace pons {

// A value of a document that an operator wrote, and its place as a JSON pointer, so that each
// refusal names it. Brings json.hpp with it: include it in .cc files only.
struct JsonPlace {
  const Json& value;
  std::string pointer;

  // What is not there is null, which every reader refuses by its place.
  JsonPlace at(std::string_view key) const;
  JsonPlace at(std::size_t index) const;
  bool has(const char* key) const { return value.contains(key); }
  Error refuse(std::string_view why) const;

  Result<void> expect_object(std::initializer_list<std::string_view> known_keys) const;
  Result<void> expect_list(std::size_t entries_max) const;
  Result<std::string> text() const;
  Result<bool> flag() const;
  Result<std::uint64_t> number(std::uint64_t min, std::uint64_t max) const;
};

}  // namespace pons
