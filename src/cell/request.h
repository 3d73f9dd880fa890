#pragma once

#include <stddef.h>

#include "pons/cell/protocol.h"

namespace pons::cell {

inline constexpr uint32_t kArgumentsMax = 8192;
inline constexpr uint32_t kEnvironmentMax = 1024;
inline constexpr uint32_t kHostnameBytesMax = 64;

// Zero-terminated strings back to back. The parser has checked that all `count` of them are there.
struct StringList {
  const char* first;
  uint32_t count;
};

// One request, checked: every field is within its bounds. Strings and bytes point into the message.
struct Request {
  Op op = Op::kPing;
  uint64_t id = 0;
  char job[kJobNameBytes] = {};

  const char* hostname = nullptr;  // kClaim
  uint64_t output_bytes_max = 0;
  const char* user = nullptr;  // kClaim, kStart
  const char* directory = nullptr;
  StringList arguments = {};
  StringList environment = {};
  Start start = {};
  Read read = {};
  Signal signal = {};
  Resize resize = {};
  uint64_t input_offset = 0;  // kWrite
  const char* input = nullptr;
  size_t input_size = 0;
};

// False when the message is not exactly one well-formed request; its id is set as far as it was
// there, for the answer.
bool parse_request(const char* message, size_t size, Request* request);

}  // namespace pons::cell
