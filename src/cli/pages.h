#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/base/json.h"
#include "pons/base/result.h"

namespace pons::cli {

// What the brain lists at that target, page after page.
Result<std::vector<Json>> ask_pages(const std::string& state_dir, const std::string& target);

// What a role answers at that target, with the list of that name of all pages.
Result<Json> ask_whole(const std::string& state_dir, std::string_view process,
                       const std::string& target, const char* list);

}  // namespace pons::cli
