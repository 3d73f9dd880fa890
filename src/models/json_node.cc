#include "json_node.h"

#include <fmt/format.h>

namespace pons::models {

std::string JsonNode::path() const {
  if (parent_ == nullptr) return {};
  std::string path = parent_->path();
  if (key_.data() == nullptr) return path + fmt::format("[{}]", index_);
  if (!path.empty()) path += '.';
  // A key is the caller's text, and may be anything.
  constexpr std::size_t kShownMax = 64;
  return path.append(key_.substr(0, kShownMax));
}

Error JsonNode::error(std::string_view what) const {
  const std::string place = path();
  return make_error(ErrorCode::kInvalid, "read request",
                    place.empty() ? std::string(what) : fmt::format("{}: {}", place, what));
}

Result<std::string_view> JsonNode::as_string() const {
  std::string_view text;
  if (value_.get(text) != simdjson::SUCCESS) return error("must be a string");
  return text;
}

Result<std::int64_t> JsonNode::as_integer() const {
  std::int64_t number = 0;
  if (value_.get(number) == simdjson::SUCCESS) return number;
  double floating = 0;
  // Some clients write 1024.0.
  constexpr double kExactMax = 9007199254740992.0;
  if (value_.get(floating) == simdjson::SUCCESS && floating >= -kExactMax &&
      floating <= kExactMax && floating == static_cast<double>(static_cast<std::int64_t>(floating)))
    return static_cast<std::int64_t>(floating);
  return error("must be a whole number");
}

Result<double> JsonNode::as_number() const {
  double number = 0;
  if (value_.get(number) != simdjson::SUCCESS) return error("must be a number");
  return number;
}

Result<bool> JsonNode::as_bool() const {
  bool truth = false;
  if (value_.get(truth) != simdjson::SUCCESS) return error("must be true or false");
  return truth;
}

std::string JsonNode::raw() const {
  return simdjson::minify(value_);
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  simdjson::dom::element found;
  if (value_.at_key(key).get(found) != simdjson::SUCCESS || found.is_null()) return std::nullopt;
  return JsonNode(found, *this, key);
}

Result<JsonNode> JsonNode::at(std::string_view key) const {
  TRY_VOID(expect_object());
  auto found = find(key);
  if (!found) return error(fmt::format("\"{}\" is missing", key));
  return *found;
}

Result<std::string_view> JsonNode::string_at(std::string_view key) const {
  return TRY(at(key)).as_string();
}

Result<std::string_view> JsonNode::string_or(std::string_view key,
                                             std::string_view otherwise) const {
  const auto found = find(key);
  return found ? found->as_string() : Result<std::string_view>(otherwise);
}

Result<std::optional<std::int64_t>> JsonNode::integer_at(std::string_view key) const {
  const auto found = find(key);
  if (!found) return std::optional<std::int64_t>();
  return std::optional(TRY(found->as_integer()));
}

Result<std::optional<double>> JsonNode::number_at(std::string_view key) const {
  const auto found = find(key);
  if (!found) return std::optional<double>();
  return std::optional(TRY(found->as_number()));
}

Result<std::optional<bool>> JsonNode::bool_at(std::string_view key) const {
  const auto found = find(key);
  if (!found) return std::optional<bool>();
  return std::optional(TRY(found->as_bool()));
}

Result<void> JsonNode::expect_object() const {
  if (is_object()) return {};
  return error("must be an object");
}

Result<void> JsonNode::expect_array() const {
  if (is_array()) return {};
  return error("must be a list");
}

Result<JsonNode> JsonDocument::parse(std::string_view text) {
  // A view of nothing may have no address, which the parser copies from.
  if (text.empty())
    return make_error(ErrorCode::kInvalid, "read request", "the body is not JSON: it is empty");
  simdjson::dom::element root;
  if (const auto failed = parser_.parse(text.data(), text.size()).get(root))
    return make_error(ErrorCode::kInvalid, "read request",
                      fmt::format("the body is not JSON: {}", simdjson::error_message(failed)));
  return JsonNode(root);
}

}  // namespace pons::models
