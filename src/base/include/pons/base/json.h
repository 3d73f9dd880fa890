#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "pons/base/result.h"

namespace pons {

// JSON for shapes (docs/decisions/0002-json.md). Include <nlohmann/json.hpp> in .cc files only: it
// costs 3 s each time.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  std::size_t depth = 64;
  std::size_t bytes = 16 * 1024 * 1024;
};

// Parses hostile text: depth and size are bounded, duplicate keys, trailing text and invalid UTF-8
// are refused.
Result<Json> parse_json(std::string_view text, JsonLimits limits = {});

// Compact text. Strings that are not UTF-8 get U+FFFD in place of the bad bytes.
std::string dump_json(const Json& value);

}  // namespace pons
