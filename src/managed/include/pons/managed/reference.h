#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pons::managed {

struct RouteText {
  std::string_view method;
  std::string_view pattern;
  std::string_view what;
};
// Every route of the API, and what it is for.
std::span<const RouteText> route_texts();

// The same as a table in Markdown: docs/use/api.md holds it.
std::string write_reference();

}  // namespace pons::managed
