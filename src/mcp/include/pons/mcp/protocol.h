#pragma once

#include <algorithm>
#include <array>
#include <string_view>

// What both sides of MCP agree on before they speak of anything else.

namespace pons::mcp {

// Newest first.
inline constexpr std::array<std::string_view, 4> kVersions = {"2025-11-25", "2025-06-18",
                                                              "2025-03-26", "2024-11-05"};

// Of an HTTP request that does not name one.
inline constexpr std::string_view kUnsaidVersion = "2025-03-26";

inline constexpr bool is_known_version(std::string_view version) {
  return std::ranges::find(kVersions, version) != kVersions.end();
}

// What a server answers to a client that offers `asked`: the same, or the newest it knows.
inline constexpr std::string_view negotiate_version(std::string_view asked) {
  const auto* known = std::ranges::find(kVersions, asked);
  return known == kVersions.end() ? kVersions.front() : *known;
}

inline constexpr std::string_view kSessionField = "mcp-session-id";
inline constexpr std::string_view kVersionField = "mcp-protocol-version";

}  // namespace pons::mcp
