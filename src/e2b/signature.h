#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/http/head.h"

namespace pons::e2b {

// A right to one file, in a link: a hash of what may be done and of the sandbox's token.
struct FileRight {
  std::string path;
  std::string operation;  // "read" or "write"
  std::string user;
  std::string expiration;  // as it was given: Unix seconds; empty: none
  std::string signature;
};

// What the request's link claims.
FileRight claimed_right(const http::RequestHead& head);

bool is_signed_with(const FileRight& right, std::string_view token);
// False as well when the time makes no sense.
bool is_in_time(const FileRight& right, std::int64_t unix_seconds);

}  // namespace pons::e2b
