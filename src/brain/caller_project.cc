#include "caller_project.h"

#include "pons/http/query.h"

namespace pons::brain {

Result<std::string> project_of(const http::Exchange& exchange) {
  const std::string& role = exchange.peer().role;
  if (role == "front") {
    const auto project = exchange.request().find("x-pons-project");
    if (project && !project->empty()) return std::string(*project);
  }
  if (role == "operator") {
    const auto project = TRY(http::find_query(exchange.request().query(), "project"));
    return project.value_or("default");
  }
  return make_error(ErrorCode::kDenied, "find caller", "this is for callers of the API");
}

}  // namespace pons::brain
