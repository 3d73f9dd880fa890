#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

struct Page {
  std::vector<sandbox::SandboxInfo> sandboxes;
  std::string next;  // where the next page begins; empty: this is the last
};

// Which sandboxes a query that names no state asks for.
enum class States : std::uint8_t { kRunning, kRunningAndPaused };

// The sandboxes of `project` that the query asks for, in its order, one page of them.
Result<Page> select_page(std::vector<sandbox::SandboxInfo> all, std::string_view project,
                         std::string_view query, States unless_named = States::kRunningAndPaused);

// Where one page of `count` things begins and ends by "limit" and "nextToken", a number.
struct Slice {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string next;
};
Result<Slice> select_slice(std::size_t count, std::string_view query);

}  // namespace pons::e2b
