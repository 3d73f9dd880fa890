#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "refusal.h"

namespace pons::egress {

// "https://host:port/path?query", taken apart.
struct OutsideUrl {
  Origin origin;
  std::string authority;  // as it was written: what stands in Host
  std::string target;     // begins with '/'
};

Result<OutsideUrl> parse_outside_url(std::string_view url);

}  // namespace pons::egress
