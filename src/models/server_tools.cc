#include "pons/models/server_tools.h"

#include <vector>

namespace pons::models {

void leave_out_search(Request& request, Omitted& omitted) {
  using Choice = ToolChoice::Kind;
  if (request.tool_choice.kind == Choice::kAny) return;
  const auto is_search = [](const Tool& tool) {
    return tool.kind == Tool::Kind::kServer && tool.protocol == Protocol::kResponses &&
           tool.name.starts_with("web_search");
  };
  if (std::erase_if(request.tools, is_search) == 0) return;
  omitted.emplace_back("web_search");
  if (!request.tools.empty()) return;
  request.tool_choice = {};
  request.parallel_tools.reset();
}

}  // namespace pons::models
