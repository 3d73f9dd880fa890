#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/http/exchange.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

struct Page {
  std::vector<sandbox::SandboxInfo> sandboxes;
  std::string next;         // where the next page begins; empty: this is the last
  std::size_t running = 0;  // on all pages
};

// Which sandboxes a query that names no state asks for.
enum class States : std::uint8_t { kRunning, kRunningAndPaused };

// The sandboxes of `project` that the query asks for, in its order, one page of them.
Result<Page> select_page(std::vector<sandbox::SandboxInfo> all, std::string_view project,
                         std::string_view query, States unless_named = States::kRunningAndPaused);

// Where something stands in a list.
struct Place {
  std::int64_t created_unix_ms = 0;
  std::string id;
  auto operator<=>(const Place&) const = default;
};

// One page of what stands there, the newest first, by "limit" and "nextToken". It begins behind the
// last thing of the page before, whether that is still there or not.
Result<http::Response> page_response(std::map<Place, Json, std::greater<>> things,
                                     std::string_view query);

}  // namespace pons::e2b
