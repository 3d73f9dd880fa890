#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pons::e2b {

// "2026-01-31T23:59:59.250Z" and back. Offsets like "+01:00" are understood.
std::string rfc3339(std::int64_t unix_ms);
std::optional<std::int64_t> parse_rfc3339(std::string_view text);

}  // namespace pons::e2b
