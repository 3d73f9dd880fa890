#include "pons/config/document.h"

#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "yaml_json.h"

namespace pons::config {

namespace {

Json json_of(const Node& node) {
  switch (node.kind) {
    case NodeKind::kNull:
      return nullptr;
    case NodeKind::kSequence: {
      Json list = Json::array();
      for (const Node& child : node.children) list.push_back(json_of(child));
      return list;
    }
    case NodeKind::kMapping: {
      Json mapping = Json::object();
      for (const Node& child : node.children) mapping[child.key] = json_of(child);
      return mapping;
    }
    case NodeKind::kScalar:
      break;
  }
  return plain_value(node).value_or(node.text);
}

}  // namespace

std::optional<Json> plain_value(const Node& scalar) {
  if (scalar.style != ScalarStyle::kPlain) return std::nullopt;
  if (scalar.text == "true" || scalar.text == "false") return scalar.text == "true";
  const auto number = parse_decimal(scalar.text);
  if (number && (scalar.text == "0" || !scalar.text.starts_with('0'))) return *number;
  return std::nullopt;
}

Result<Json> read_document(std::string_view text, const std::string& file_name) {
  // All of JSON is YAML, but not all of it is in the part that is read here.
  if (auto json = parse_json(text)) return json;
  const auto document = parse_yaml(text, file_name);
  if (!document)
    return make_error(ErrorCode::kInvalid, "read document", document.error().describe());
  if (!document->duplicates.empty())
    return make_error(ErrorCode::kInvalid, "read document",
                      document->duplicates.front().describe());
  return json_of(document->root);
}

}  // namespace pons::config
