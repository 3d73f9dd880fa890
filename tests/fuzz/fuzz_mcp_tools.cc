#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/mcp/remote_tool.h"

using namespace pons;
using namespace pons::mcp;

// Lists of tools of servers that nobody has reason to trust: what is taken can be shown to a model
// and pinned.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ToolList list;
  if (add_tools(list, text)) {
    ToolPins pins;
    CHECK(list.tools.size() <= kToolsMax);
    for (const RemoteTool& tool : list.tools) {
      CHECK(!tool.name.empty() && tool.name.size() <= 64 && tool.digest.size() == 64);
      const auto schema = parse_json(tool.input_schema);
      CHECK(schema && schema->at("type") == "object");
      CHECK(tool.description.find('\x1b') == std::string::npos);
      pins.accept(tool);
      CHECK(pins.standing_of(tool) == ToolPins::Standing::kAccepted);
    }
    CHECK(ToolPins::read(pins.write()));
  }
  if (const auto pins = ToolPins::read(text)) CHECK(ToolPins::read(pins->write()));
  return 0;
}
