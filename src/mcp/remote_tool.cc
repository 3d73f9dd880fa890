#include "pons/mcp/remote_tool.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"

namespace pons::mcp {

namespace {

constexpr std::size_t kNameBytesMax = 64;
constexpr std::size_t kDescriptionBytesMax = 8 * 1024;
constexpr std::size_t kRefusedMax = 16;  // that are told of
constexpr std::size_t kSchemaDepthMax = 16;

Error wrong(std::string why) {
  return make_error(ErrorCode::kInvalid, "read tool", std::move(why));
}

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
         });
}

// Escapes of terminals and text that no person sees are for nobody's eyes but the model's.
bool is_plain_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == 0x7F) return false;
    const std::string_view rest = text.substr(i);
    // Zero width, direction marks and overrides (U+200B to U+200F, U+202A to U+202E, U+2060 to
    // U+206F), and the tags U+E0000 to U+E007F.
    if (rest.starts_with("\xE2\x80") && rest.size() > 2) {
      const auto third = static_cast<unsigned char>(rest[2]);
      if ((third >= 0x8B && third <= 0x8F) || (third >= 0xAA && third <= 0xAE)) return false;
    }
    if (rest.starts_with("\xE2\x81") && rest.size() > 2 &&
        static_cast<unsigned char>(rest[2]) >= 0xA0)
      return false;
    if (rest.starts_with("\xF3\xA0\x80") || rest.starts_with("\xF3\xA0\x81")) return false;
  }
  return true;
}

bool is_type_word(const Json& value) {
  static constexpr std::array<std::string_view, 7> kWords = {
      "object", "array", "string", "number", "integer", "boolean", "null"};
  const auto* word = value.get_ptr<const std::string*>();
  return word != nullptr && std::ranges::find(kWords, *word) != kWords.end();
}

bool is_type(const Json& value) {
  return value.is_array() ? !value.empty() && std::ranges::all_of(value, is_type_word)
                          : is_type_word(value);
}

bool are_texts(const Json& value) {
  return value.is_array() &&
         std::ranges::all_of(value, [](const Json& each) { return each.is_string(); });
}

// As far as a provider of models would refuse it. What it does not know it lets pass.
bool is_schema(const Json& schema, std::size_t depth);

bool are_schemas(const Json& value, std::size_t depth) {
  return (value.is_object() || value.is_array()) &&
         std::ranges::all_of(value, [&](const Json& each) { return is_schema(each, depth); });
}

bool is_keyword_right(const std::string& name, const Json& value, std::size_t depth) {
  if (name == "type") return is_type(value);
  if (name == "required") return are_texts(value);
  if (name == "enum") return value.is_array() && !value.empty();
  if (name == "description" || name == "title" || name == "format") return value.is_string();
  if (name == "$ref")  // nobody fetches anything because a tool says so
    return value.is_string() && value.get_ref<const std::string&>().starts_with('#');
  if (name == "properties" || name == "$defs" || name == "definitions" ||
      name == "patternProperties")
    return value.is_object() && are_schemas(value, depth);
  if (name == "anyOf" || name == "oneOf" || name == "allOf")
    return value.is_array() && !value.empty() && are_schemas(value, depth);
  if (name == "items")
    return value.is_array() ? are_schemas(value, depth) : is_schema(value, depth);
  if (name == "additionalProperties" || name == "not") return is_schema(value, depth);
  return true;
}

bool is_schema(const Json& schema, std::size_t depth) {
  if (schema.is_boolean()) return true;
  if (!schema.is_object() || depth >= kSchemaDepthMax) return false;
  return std::ranges::all_of(schema.items(), [&](const auto& item) {
    return is_keyword_right(item.key(), item.value(), depth + 1);
  });
}

// The same for the same tool, in whatever order its server writes it.
std::string digest_of(const Json& tool) {
  nlohmann::json sorted = nlohmann::json::parse(dump_json(tool));  // its objects are sorted
  sorted.erase("_meta");
  sorted.erase("icons");
  return sha256_hex(sorted.dump());
}

Result<RemoteTool> read_tool(const Json& json) {
  if (!json.is_object()) return wrong("it is no object");
  if (dump_json(json).size() > kToolBytesMax)
    return wrong(fmt::format("its definition is longer than {}", human_bytes(kToolBytesMax)));
  RemoteTool tool;
  if (!json.contains("name") || !json.at("name").is_string()) return wrong("it has no name");
  tool.name = json.at("name").get<std::string>();
  if (!is_tool_name(tool.name))
    return wrong("its name is not 1 to 64 letters, digits, '_', '-' and '.'");
  if (json.contains("description")) {
    if (!json.at("description").is_string()) return wrong("its description is no text");
    tool.description = json.at("description").get<std::string>();
  }
  if (tool.description.size() > kDescriptionBytesMax)
    return wrong(
        fmt::format("its description is longer than {}", human_bytes(kDescriptionBytesMax)));
  const auto schema = json.find("inputSchema");
  if (schema == json.end() || !schema->is_object() || !schema->contains("type") ||
      schema->at("type") != "object" || !is_schema(*schema, 0))
    return wrong("its inputSchema is no schema of an object");
  tool.input_schema = dump_json(*schema);
  if (!is_plain_text(tool.description) || !is_plain_text(tool.input_schema))
    return wrong("it holds characters that nobody would see");
  tool.digest = digest_of(json);
  return tool;
}

// Of a tool that is left out.
std::string shown_name(const Json& json) {
  if (!json.is_object() || !json.contains("name") || !json.at("name").is_string()) return "?";
  std::string name = json.at("name").get<std::string>().substr(0, kNameBytesMax);
  for (char& c : name)
    if (c < ' ' || c > '~') c = '?';
  return name;
}

}  // namespace

Result<void> add_tools(ToolList& list, std::string_view page) {
  const Json json = TRY(parse_json(page));
  if (!json.is_array()) return wrong("\"tools\" must be a list");
  if (list.tools.size() + json.size() > kToolsMax)
    return make_error(ErrorCode::kLimit, "list tools",
                      fmt::format("a server may offer {} tools", kToolsMax));
  for (const Json& each : json) {
    auto tool = read_tool(each);
    if (tool && std::ranges::find(list.tools, tool->name, &RemoteTool::name) != list.tools.end())
      tool = wrong("there is another one of this name");
    if (tool)
      list.tools.push_back(std::move(*tool));
    else if (list.refused.size() < kRefusedMax)
      list.refused.push_back({.name = shown_name(each), .why = tool.error().message});
  }
  return {};
}

Result<ToolPins> ToolPins::read(std::string_view text) {
  constexpr std::size_t kDigestBytes = 64;
  const Json json = TRY(parse_json(text));
  if (!json.is_object() || json.size() > kToolsMax) return wrong("pins are an object of digests");
  ToolPins pins;
  for (const auto& [name, digest] : json.items()) {
    const auto* value = digest.get_ptr<const std::string*>();
    if (!is_tool_name(name) || value == nullptr || value->size() != kDigestBytes)
      return wrong(fmt::format("the pin of \"{}\" is no digest", shown_name({{"name", name}})));
    pins.digests_[name] = *value;
  }
  return pins;
}

std::string ToolPins::write() const {
  return dump_json(Json(digests_));
}

ToolPins::Standing ToolPins::standing_of(const RemoteTool& tool) const {
  const auto known = digests_.find(tool.name);
  if (known == digests_.end()) return Standing::kNew;
  return known->second == tool.digest ? Standing::kAccepted : Standing::kChanged;
}

std::vector<std::string> ToolPins::find_gone(const ToolList& list) const {
  std::vector<std::string> gone;
  for (const auto& [name, digest] : digests_)
    if (std::ranges::find(list.tools, name, &RemoteTool::name) == list.tools.end())
      gone.push_back(name);
  return gone;
}

}  // namespace pons::mcp
