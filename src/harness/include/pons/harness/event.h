#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// What a harness tells of its work, whichever it is. A turn is what follows a message, up to
// exactly one Idle; in it, pieces of text come before the whole of it, and every ToolCall has its
// ToolResult.

namespace pons::harness {

// It can be sent messages.
struct Ready {
  std::string session;  // its own name for the conversation; a later process goes on by it
  bool operator==(const Ready&) const = default;
};

// The tools that the model is offered, where the harness says so.
struct ToolsOffered {
  std::vector<std::string> names;
  bool operator==(const ToolsOffered&) const = default;
};

struct TextDelta {
  std::string text;
  bool operator==(const TextDelta&) const = default;
};
struct ThinkingDelta {
  std::string text;
  bool operator==(const ThinkingDelta&) const = default;
};

// A whole part of the answer.
struct Text {
  std::string text;
  bool operator==(const Text&) const = default;
};

// Of a tool that the harness runs, or has others run, by itself.
struct ToolCall {
  std::string id;
  std::string name;
  std::string input;  // JSON: an object
  bool operator==(const ToolCall&) const = default;
};
struct ToolResult {
  std::string id;
  std::string text;
  bool is_error = false;
  bool operator==(const ToolResult&) const = default;
};

// Of a tool that whoever started the harness runs: to be answered, once.
struct ToolRequest {
  std::string id;
  std::string name;
  std::string input;  // JSON: an object
  bool operator==(const ToolRequest&) const = default;
};

// Whether it may use a tool: to be answered, once.
struct PermissionRequest {
  std::string id;
  std::string tool;
  std::string input;  // JSON: an object
  bool operator==(const PermissionRequest&) const = default;
};

// Since the last one.
struct Usage {
  std::int64_t input = 0;  // read anew
  std::int64_t cache_read = 0;
  std::int64_t cache_write = 0;
  std::int64_t output = 0;
  bool operator==(const Usage&) const = default;
};

enum class Fault : std::uint8_t {
  kCredential,   // 401, 403
  kRateLimit,    // 429
  kBudget,       // money or tokens are spent
  kUnavailable,  // 5xx, no connection
  kTimeout,
  kMalformed,  // what the model said could not be read
  kHarness,    // the harness itself: garbage, a crash, a request that it refused
  kOther,
};
std::string_view name_of(Fault fault);

struct Failure {
  Fault fault = Fault::kOther;
  std::string message;
  bool retries = false;  // the harness goes on by itself
  bool operator==(const Failure&) const = default;
};

enum class Ending : std::uint8_t { kDone, kInterrupted, kFailed };
std::string_view name_of(Ending ending);

struct Idle {
  Ending ending = Ending::kDone;
  bool operator==(const Idle&) const = default;
};

using Event = std::variant<Ready, ToolsOffered, TextDelta, ThinkingDelta, Text, ToolCall,
                           ToolResult, ToolRequest, PermissionRequest, Usage, Failure, Idle>;

// From what a harness says of an error of its model: words and numbers that they all have.
Fault fault_of(std::string_view message);
Fault fault_of_status(std::int64_t status);
// By its status (0: none), or by what it says where that tells nothing.
Fault fault_of(std::int64_t status, std::string_view message);

}  // namespace pons::harness
