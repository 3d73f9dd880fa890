#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/result.h"

// The Connect protocol as far as E2B's SDKs speak it: JSON, calls with one answer and streams.

namespace pons::e2b {

// A message of a stream: flags, length in network order, payload.
struct Envelope {
  static constexpr std::uint8_t kMessage = 0;
  static constexpr std::uint8_t kEnd = 2;
  static constexpr std::size_t kHeadBytes = 5;
};

struct EnvelopeParse {
  enum class State : std::uint8_t { kNeedMore, kDone, kRefused } state = State::kNeedMore;
  std::size_t consumed = 0;  // kDone
  std::string_view payload;  // kDone: inside the bytes given
  const char* reason = "";   // kRefused: a static sentence
};

// The message at the start of `bytes`. Compressed ones, unknown flags and payloads past the limit
// are refused as soon as the head is there.
EnvelopeParse parse_envelope(std::string_view bytes, std::size_t payload_max);
std::string make_envelope(std::uint8_t flags, std::string_view payload);

// How an error is called in the protocol, and the HTTP status of a call that failed with it.
struct RpcCode {
  std::string_view name;
  int status;
};
RpcCode rpc_code(const Error& error);
// {"code":…,"message":…}
std::string rpc_error_json(const Error& error);

inline constexpr const char* kStreamType = "application/connect+json";
// The end of a stream that failed.
std::string end_of_stream(const Error& error);

// What to tell a person: the message alone where there is one.
std::string explain(const Error& error);

}  // namespace pons::e2b
