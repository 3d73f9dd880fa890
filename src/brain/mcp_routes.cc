#include "caller_project.h"
#include "pons/http/error_status.h"
#include "pons/mcp/server.h"
#include "routes.h"

namespace pons::brain {

namespace {

// Inside a sandbox, which egress names, the tools are others, and whose they are is the sandbox.
Task<> answer(mcp::Server& server, const ServerInside& inside, http::Exchange& exchange) {
  if (exchange.peer().role == "egress") {
    const auto sandbox = exchange.request().find("x-pons-sandbox");
    if (!sandbox || sandbox->empty()) {
      exchange.respond(http::error_response(403, "denied", "this is for sandboxes"));
      co_return;
    }
    std::string name(*sandbox);
    co_return co_await inside(name).handle(exchange, name);
  }
  auto project = project_of(exchange);
  if (!project) {
    exchange.respond(http::error_response(project.error()));
    co_return;
  }
  co_await server.handle(exchange, std::move(*project));
}

}  // namespace

std::vector<http::Route> mcp_routes(mcp::Server& server, ServerInside inside) {
  std::vector<http::Route> routes;
  for (const char* method : {"DELETE", "GET", "POST"})
    routes.push_back(
        {method, "/mcp", [&server, inside](http::Exchange& e, const http::PathValues&) {
           return answer(server, inside, e);
         }});
  return routes;
}

}  // namespace pons::brain
