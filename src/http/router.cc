#include "pons/http/router.h"

#include <algorithm>
#include <memory>

namespace pons::http {

namespace {

bool matches(std::string_view pattern, std::string_view path, PathValues& values) {
  values.clear();
  while (!pattern.empty() && !path.empty()) {
    if (pattern == "{...}") {
      values.push_back(path);
      return true;
    }
    if (pattern.front() != '{') {
      if (pattern.front() != path.front()) return false;
      pattern.remove_prefix(1);
      path.remove_prefix(1);
      continue;
    }
    const std::string_view segment = path.substr(0, path.find('/'));
    if (segment.empty()) return false;
    values.push_back(segment);
    path.remove_prefix(segment.size());
    pattern.remove_prefix(pattern.find('}') + 1);
  }
  return pattern.empty() && path.empty();
}

bool accepts(std::string_view route_method, std::string_view method) {
  return route_method == method || route_method == "*" ||
         (route_method == "GET" && method == "HEAD");
}

Task<> dispatch(std::shared_ptr<const std::vector<Route>> routes, Exchange& exchange) {
  PathValues values;
  std::string allowed;
  for (const Route& candidate : *routes) {
    if (!matches(candidate.pattern, exchange.request().path(), values)) continue;
    if (accepts(candidate.method, exchange.request().method)) {
      exchange.set_route(candidate.pattern);
      co_await candidate.handler(exchange, values);
      co_return;
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(candidate.method);
  }
  if (allowed.empty()) {
    exchange.respond(error_response(404, "not_found", "there is nothing at this address"));
  } else {
    Response response = error_response(405, "method_not_allowed", "this address takes: " + allowed);
    response.fields = {{"Allow", allowed}};
    exchange.respond(std::move(response));
  }
}

}  // namespace

Handler route(std::vector<Route> routes) {
  auto table = std::make_shared<const std::vector<Route>>(std::move(routes));
  return [table](Exchange& exchange) { return dispatch(table, exchange); };
}

}  // namespace pons::http
