#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "pons/config/config.h"

namespace pons::config {

inline constexpr std::size_t kSubstitutedBytesMax = 64 * 1024;

// Whether a text may be shown to people: what came from a substitution may be a secret.
enum class Origin : std::uint8_t { kWritten, kSubstituted };

struct ExpandedText {
  std::string text;
  Origin origin = Origin::kWritten;
};

// Replaces every ${env:NAME} and ${file:PATH}; `$${` stands for `${`. What was put in is not
// searched again. The error says what to do and holds nothing but what `text` itself says.
std::expected<ExpandedText, std::string> expand(std::string_view text,
                                                const std::string& config_file,
                                                const Substitution& substitution);

// Refuses anything but a regular file, without waiting for a writer.
Result<std::string> read_regular_file(const std::string& path, std::size_t bytes_max);

// Why, without the path: "No such file or directory".
std::string reading_problem(const Error& error);

}  // namespace pons::config
