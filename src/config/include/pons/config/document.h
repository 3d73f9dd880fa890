#pragma once

#include <string>
#include <string_view>

#include "pons/base/json.h"
#include "pons/base/result.h"

namespace pons::config {

// What a person wrote for one of our APIs, in JSON or in the YAML of configurations. Errors name
// file, line and column.
Result<Json> read_document(std::string_view text, const std::string& file_name);

}  // namespace pons::config
