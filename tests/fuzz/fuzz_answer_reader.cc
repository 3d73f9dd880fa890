#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "answer_reader.h"
#include "pons/base/check.h"
#include "pons/base/json.h"

using namespace pons;
using namespace pons::brain;

// A stream of a model, cut anywhere (the first byte says where): an answer that is whole is one
// that the protocol takes back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t cut = 1 + data[0];
  std::string_view left(reinterpret_cast<const char*>(data) + 1, size - 1);
  const session::Listener listener{
      .on_text = [](std::string_view) {},
      .on_tool = [](std::int64_t block,
                    std::string_view tool) { CHECK(block >= 0 && !tool.empty()); }};
  AnswerReader reader(listener);
  while (!left.empty()) {
    if (!reader.feed(left.substr(0, cut))) return 0;
    left.remove_prefix(std::min(cut, left.size()));
  }
  if (!reader.is_whole()) return 0;
  const session::Answer answer = reader.take();
  const auto content = parse_json(answer.content);
  CHECK(content && content->is_array());
  std::set<std::string> ids;
  for (const Json& block : *content) {
    CHECK(block.is_object());
    if (!block.contains("type") || block["type"] != "tool_use") continue;
    CHECK(block["input"].is_object());
    CHECK(ids.insert(block["id"].get<std::string>()).second);
  }
  for (const std::int64_t number :
       {answer.usage.input, answer.usage.output, answer.usage.cache_read, answer.usage.cache_write})
    CHECK(number >= 0);
  return 0;
}
