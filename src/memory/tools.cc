#include "pons/memory/tools.h"

#include <algorithm>
#include <array>

#include "pons/base/json_place.h"
#include "pons/memory/memory_stores.h"
#include "pons/memory/path.h"

namespace pons::memory {

namespace {

struct Tool {
  std::string_view name;
  Writing writing;
  std::string_view definition;  // JSON
};

constexpr std::array<Tool, 5> kTools = {{
    {kSearchTool, Writing::kRefused,
     R"json({"name":"memory_search","description":"Finds notes of earlier sessions by their words. Returns paths and the lines around what was found.","input_schema":{"type":"object","properties":{"query":{"type":"string","description":"Words; no operators."},"store":{"type":"string","description":"Name of one memory store; leave it out for all."},"limit":{"type":"integer","minimum":1,"maximum":50,"description":"10 unless given."}},"required":["query"],"additionalProperties":false}})json"},
    {kReadTool, Writing::kRefused,
     R"json({"name":"memory_read","description":"Returns one note.","input_schema":{"type":"object","properties":{"path":{"type":"string","description":"Such as /projects/site.md."},"store":{"type":"string","description":"Name of the memory store; leave it out when there is only one."}},"required":["path"],"additionalProperties":false}})json"},
    {kListTool, Writing::kRefused,
     R"json({"name":"memory_list","description":"Lists notes and folders.","input_schema":{"type":"object","properties":{"path_prefix":{"type":"string","description":"A folder that ends with a slash; / unless given."},"store":{"type":"string","description":"Name of the memory store; leave it out when there is only one."}},"additionalProperties":false}})json"},
    {kWriteTool, Writing::kAllowed,
     R"json({"name":"memory_write","description":"Writes a note for later sessions: makes it, or replaces its whole content. Many short notes are better than a long one. Never write credentials.","input_schema":{"type":"object","properties":{"path":{"type":"string","description":"Such as /projects/site.md."},"content":{"type":"string","description":"At most 102,400 bytes."},"store":{"type":"string","description":"Name of the memory store; leave it out when there is only one."},"expected_sha256":{"type":"string","description":"As memory_read gave it: the note is replaced only if nobody has changed it since."}},"required":["path","content"],"additionalProperties":false}})json"},
    {kDeleteTool, Writing::kAllowed,
     R"json({"name":"memory_delete","description":"Deletes a note that is wrong or of no more use.","input_schema":{"type":"object","properties":{"path":{"type":"string"},"store":{"type":"string","description":"Name of the memory store; leave it out when there is only one."}},"required":["path"],"additionalProperties":false}})json"},
}};

constexpr std::size_t kStoreNameBytesMax = 1024;
constexpr std::size_t kQueryBytesMax = 4096;

Result<Json> parse_input(std::string_view input) {
  auto json = parse_json(input);
  if (!json) return make_error(ErrorCode::kInvalid, "read arguments", "they are no JSON object");
  return json;
}

Result<std::string> text_at(const JsonPlace& place, const char* key, std::size_t bytes_max) {
  if (!place.has(key)) return std::string();
  std::string text = TRY(place.at(key).text());
  if (text.size() > bytes_max) return place.at(key).refuse("is too long");
  if (text.find('\0') != std::string::npos) return place.at(key).refuse("holds a NUL");
  return text;
}

Error missing(const JsonPlace& place, const char* key) {
  return place.refuse(std::string("\"") + key + "\" is missing");
}

// Longer ones are refused with what a path may be.
Result<std::string> path_at(const JsonPlace& place) {
  if (!place.has("path")) return missing(place, "path");
  std::string path = TRY(text_at(place, "path", kPathBytesMax * 4));
  TRY_VOID(check_path(path));
  return path;
}

Result<std::string> store_at(const JsonPlace& place) {
  return text_at(place, "store", kStoreNameBytesMax);
}

Result<ReadArguments> read_path_and_store(std::string_view input) {
  const Json json = TRY(parse_input(input));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"path", "store"}));
  return ReadArguments{.path = TRY(path_at(place)), .store = TRY(store_at(place))};
}

}  // namespace

bool is_memory_tool(std::string_view name) {
  return std::ranges::find(kTools, name, &Tool::name) != kTools.end();
}

std::string write_memory_tools(Writing writing) {
  std::string list;
  for (const Tool& tool : kTools) {
    if (tool.writing == Writing::kAllowed && writing == Writing::kRefused) continue;
    if (!list.empty()) list += ',';
    list += tool.definition;
  }
  return list;
}

Result<SearchArguments> read_search(std::string_view input) {
  const Json json = TRY(parse_input(input));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"query", "store", "limit"}));
  SearchArguments arguments;
  arguments.query = TRY(text_at(place, "query", kQueryBytesMax));
  if (arguments.query.empty()) return missing(place, "query");
  arguments.store = TRY(store_at(place));
  if (place.has("limit"))
    arguments.limit = static_cast<std::int64_t>(TRY(place.at("limit").number(1, kHitsMax)));
  return arguments;
}

Result<ReadArguments> read_read(std::string_view input) {
  return read_path_and_store(input);
}

Result<ReadArguments> read_delete(std::string_view input) {
  return read_path_and_store(input);
}

Result<WriteArguments> read_write(std::string_view input) {
  const Json json = TRY(parse_input(input));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"path", "content", "store", "expected_sha256"}));
  WriteArguments arguments;
  arguments.path = TRY(path_at(place));
  if (!place.has("content")) return missing(place, "content");
  arguments.content = TRY(text_at(place, "content", kContentBytesMax));
  arguments.store = TRY(store_at(place));
  if (place.has("expected_sha256"))
    arguments.expected_sha256 = TRY(text_at(place, "expected_sha256", 64));
  return arguments;
}

Result<ListArguments> read_list(std::string_view input) {
  const Json json = TRY(parse_input(input));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"path_prefix", "store"}));
  ListArguments arguments;
  if (place.has("path_prefix"))
    arguments.path_prefix = TRY(text_at(place, "path_prefix", kPathBytesMax * 4));
  TRY_VOID(check_prefix(arguments.path_prefix));
  arguments.store = TRY(store_at(place));
  return arguments;
}

}  // namespace pons::memory
