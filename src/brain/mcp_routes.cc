#include "caller_project.h"
#include "pons/http/error_status.h"
#include "pons/mcp/server.h"
#include "routes.h"

namespace pons::brain {

namespace {

Task<> answer(mcp::Server& server, http::Exchange& exchange) {
  auto project = project_of(exchange);
  if (!project) {
    exchange.respond(http::error_response(project.error()));
    co_return;
  }
  co_await server.handle(exchange, std::move(*project));
}

}  // namespace

std::vector<http::Route> mcp_routes(mcp::Server& server) {
  std::vector<http::Route> routes;
  for (const char* method : {"DELETE", "GET", "POST"})
    routes.push_back({method, "/mcp", [&server](http::Exchange& e, const http::PathValues&) {
                        return answer(server, e);
                      }});
  return routes;
}

}  // namespace pons::brain
