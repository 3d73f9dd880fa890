#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pons {

// Strict: the standard alphabet, padded, and unused bits zero, so that one text stands for each
// sequence of bytes.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace pons
