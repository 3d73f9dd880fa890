#pragma once

#include <string_view>

#include "pons/base/result.h"
#include "pons/telemetry/page.h"

namespace pons::telemetry {

inline constexpr std::size_t kPageBytesMax = std::size_t{2} << 20;

// Adds another process's page to one of all, each sample with the label `role`. The other one is
// not believed: a page that is not exactly in our shape, or that brings a `role` of its own, is
// refused as a whole, and nothing of it is added.
Result<void> merge_page(Page& all, std::string_view role, std::string_view text);

}  // namespace pons::telemetry
