#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"

namespace pons::egress {

// The path of a request target, without its query, in the one form that patterns are compared with:
// escapes of unreserved characters are resolved, other escapes are upper case. What two servers
// could read differently is refused: escaped slashes and percent signs, backslashes, empty and dot
// segments, parameters on dot segments, bytes that are not visible ASCII.
Result<std::string> normalize_path(std::string_view target);

// "/repos/*/issues", "/v1/**": `*` stands for characters inside one segment, at least one when it
// is the whole segment; `**`, only as the last segment, for all the rest or nothing.
class PathPattern {
 public:
  static Result<PathPattern> parse(std::string_view text);
  bool matches(std::string_view normalized_path) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<std::string> segments_;
  bool takes_rest_ = false;
};

}  // namespace pons::egress
