#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/egress/destination.h"

namespace pons::egress {

// What a program in a sandbox asks to be allowed. A stranger wrote it, for a person to read.
struct AccessWish {
  Destination host;
  std::uint16_t port = 443;
  std::vector<std::string> methods;  // in order, each once; none: every one
  std::string reason;

  // Whether it asks for the same, whatever reason is given.
  bool asks_same_as(const AccessWish& other) const;
};

inline constexpr std::size_t kWishBytesMax = 4 * 1024;
inline constexpr std::size_t kReasonBytesMax = 500;

// {"host", "reason", "port"?, "methods"?}. Refused: names of Pons itself, fields that are not
// known, and a reason that is not one line of text which every terminal shows as it is.
Result<AccessWish> parse_access_wish(std::string_view text);
Result<AccessWish> read_access_wish(const Json& json);
Json to_json(const AccessWish& wish);

}  // namespace pons::egress
