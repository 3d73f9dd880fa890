#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pons::e2b {

// A process of this protocol is a job whose id says what must not be forgotten when a process of
// ours restarts: how it talks, and the tag by which it is found.
enum class ProcessIo : std::uint8_t { kPipes, kTerminal };

struct ProcessName {
  ProcessIo io = ProcessIo::kPipes;
  std::string tag_code;  // empty: it has no tag
};

std::string make_process_name(ProcessIo io, const std::optional<std::string>& tag);
// Nothing for jobs of others.
std::optional<ProcessName> parse_process_name(std::string_view job);
// The tag as it stands in the name: itself in a safe alphabet, or its hash when it is long.
std::string tag_code(std::string_view tag);
// Undone, where it can be.
std::optional<std::string> tag_of(std::string_view code);

}  // namespace pons::e2b
