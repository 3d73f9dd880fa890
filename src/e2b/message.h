#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pons/base/json.h"
#include "pons/base/result.h"

// Fields of a protobuf message in JSON: what is absent or null has its default, what has another
// type is kInvalid with the field's name, unknown fields mean nothing.

namespace pons::e2b {

// Null where there is none.
const Json* find_field(const Json& message, const char* name);
Result<std::string> text_field(const Json& message, const char* name);
Result<std::uint64_t> number_field(const Json& message, const char* name, std::uint64_t most);
Result<bool> flag_field(const Json& message, const char* name, bool otherwise);
// Base64; nothing where there is no such field.
Result<std::optional<std::string>> bytes_field(const Json& message, const char* name);
Result<std::vector<std::string>> list_field(const Json& message, const char* name);
Result<std::map<std::string, std::string>> map_field(const Json& message, const char* name);

}  // namespace pons::e2b
