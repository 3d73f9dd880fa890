#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <variant>

// The messages of MCP: JSON-RPC 2.0, one to a body, an event or a line, without any I/O. Ids,
// parameters and results stay JSON text: whoever wants to look into them parses them.

namespace pons::mcp {

inline constexpr std::size_t kMessageBytesMax = 4 << 20;

// What went wrong, as the other side is told.
inline constexpr std::int64_t kParseError = -32700;
inline constexpr std::int64_t kInvalidRequest = -32600;
inline constexpr std::int64_t kMethodNotFound = -32601;
inline constexpr std::int64_t kInvalidParams = -32602;
inline constexpr std::int64_t kInternalError = -32603;
inline constexpr std::int64_t kLimitReached = -32000;  // ours
inline constexpr std::int64_t kCancelled = -32001;     // ours

struct Request {
  std::string id;             // a text or a whole number
  std::string method;         // 1 to 256 bytes
  std::string params = "{}";  // always an object
};
struct Notification {
  std::string method;
  std::string params = "{}";
};
struct RpcError {
  std::int64_t code = kInternalError;
  std::string message;
};
struct Reply {
  std::string id;  // "null": to what could not be read
  std::variant<std::string, RpcError> outcome;
};
using Message = std::variant<Request, Notification, Reply>;

// Why a text is no message, and whom to tell: "null" when not even its id could be read.
struct Unreadable {
  RpcError error;
  std::string id = "null";
};

// Refuses what the newest protocol refuses: lists of messages (batches), ids that are null, params
// that are no object.
std::expected<Message, Unreadable> read_message(std::string_view text,
                                                std::size_t bytes_max = kMessageBytesMax);

// On one line. Ids, params and results must be JSON.
std::string write_message(const Message& message);

inline std::string write_result(std::string id, std::string result) {
  return write_message(Reply{.id = std::move(id), .outcome = std::move(result)});
}
inline std::string write_error(std::string id, std::int64_t code, std::string message) {
  return write_message(
      Reply{.id = std::move(id), .outcome = RpcError{.code = code, .message = std::move(message)}});
}

}  // namespace pons::mcp
