#pragma once

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

// The sandboxes of `project` that the query asks for, in its order, one page of them.
Result<Page> select_page(std::vector<sandbox::SandboxInfo> all, std::string_view project,
                         std::string_view query);

}  // namespace pons::e2b
