#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "projects.h"
#include "sandbox_records.h"

// Reads the bodies of requests: each field has a limit, and what is not known is refused.

namespace pons::brain {

inline constexpr std::size_t kRequestBytesMax = 1 << 20;
inline constexpr std::size_t kRecordsMax = 500;  // of one request

// {"name": "…"}
Result<std::string> parse_new_project(std::string_view body);

// {"sandboxes": 50, "sessions": null, "requests_per_second": 100}: null is no limit, what is
// missing stays.
Result<LimitChanges> parse_limits(std::string_view body);

// {"name": "…", "project": "…", "scopes": ["…"]}; the last two may be missing.
struct NewKeyRequest {
  std::string name;
  std::string project;
  std::vector<std::string> scopes;
};
Result<NewKeyRequest> parse_new_key(std::string_view body);

// [{"op": "create", "id", "project", "template", "metadata": {}, "at_unix_ms"},
//  {"op": "end", "id", "project", "reason", "at_unix_ms"}]; a missing time is `now_ms`.
Result<std::vector<SandboxRecord>> parse_sandbox_records(std::string_view body,
                                                         std::int64_t now_ms);

}  // namespace pons::brain
