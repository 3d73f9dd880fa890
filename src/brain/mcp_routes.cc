#include "caller_project.h"
#include "cell_toolbox.h"
#include "pons/http/error_status.h"
#include "pons/mcp/server.h"
#include "routes.h"

namespace pons::brain {

namespace {

// A sandbox, which egress names; there is no other word for who it is.
Task<> answer_cell(Cells& cells, http::Exchange& exchange) {
  const std::string sandbox(exchange.request().find("x-pons-sandbox").value_or(""));
  if (sandbox.empty()) {
    exchange.respond(http::error_response(
        make_error(ErrorCode::kDenied, "find caller", "this is for sandboxes")));
    co_return;
  }
  if (const auto met = co_await cells.toolbox.meet(sandbox); !met) {
    exchange.respond(http::error_response(met.error()));
    co_return;
  }
  co_await cells.server.handle(exchange, sandbox);
}

Task<> answer(mcp::Server& server, Cells& cells, http::Exchange& exchange) {
  if (exchange.peer().role == "egress") co_return co_await answer_cell(cells, exchange);
  auto project = project_of(exchange);
  if (!project) {
    exchange.respond(http::error_response(project.error()));
    co_return;
  }
  co_await server.handle(exchange, std::move(*project));
}

}  // namespace

std::vector<http::Route> mcp_routes(mcp::Server& server, Cells& cells) {
  std::vector<http::Route> routes;
  for (const char* method : {"DELETE", "GET", "POST"})
    routes.push_back({method, "/mcp", [&](http::Exchange& e, const http::PathValues&) {
                        return answer(server, cells, e);
                      }});
  return routes;
}

}  // namespace pons::brain
