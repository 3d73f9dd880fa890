#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pons/http/server.h"

namespace pons::http {

// The values of a pattern's {names}, in order; views into the request's target.
using PathValues = std::vector<std::string_view>;
using RouteHandler = std::function<Task<>(Exchange&, const PathValues&)>;

struct Route {
  std::string_view method;  // static text; "*": any
  std::string_view
      pattern;  // static text: "/v1/things/{id}"; a {name} takes one non-empty segment,
                // {...} at its end whatever follows
  RouteHandler handler;
};

// A service's whole surface as one table. No match: 404; another method matches: 405 with Allow.
// HEAD falls back to GET.
Handler route(std::vector<Route> routes);

}  // namespace pons::http
