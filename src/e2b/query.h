#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pons::e2b {

// Undoes the coding of forms: '+' is a space. Nothing when it is broken.
std::optional<std::string> form_decode(std::string_view text);

// The first value of that name, decoded. Nothing when it is absent or broken.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace pons::e2b
