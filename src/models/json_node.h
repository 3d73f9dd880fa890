#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

#include "pons/base/result.h"

namespace pons::models {

// A value of a parsed document that knows the way to it, so that an error can say where it is:
// "messages[2].content[0].type: …". Nodes stand on the stack, parents below their children.
class JsonNode {
 public:
  explicit JsonNode(simdjson::dom::element value) : value_(value) {}
  JsonNode(simdjson::dom::element value, const JsonNode& parent, std::string_view key)
      : value_(value), parent_(&parent), key_(key) {}
  JsonNode(simdjson::dom::element value, const JsonNode& parent, std::size_t index)
      : value_(value), parent_(&parent), index_(index) {}

  simdjson::dom::element value() const { return value_; }
  bool is_null() const { return value_.is_null(); }
  bool is_string() const { return value_.is_string(); }
  bool is_array() const { return value_.is_array(); }
  bool is_object() const { return value_.is_object(); }

  Error error(std::string_view what) const;  // kInvalid, with the place

  // Views live as long as the document's parser.
  Result<std::string_view> as_string() const;
  Result<std::int64_t> as_integer() const;
  Result<double> as_number() const;
  Result<bool> as_bool() const;
  std::string raw() const;  // compact JSON

  // Null counts as absent, as in all three protocols. The first error of find() is that this is no
  // object.
  std::optional<JsonNode> find(std::string_view key) const;
  Result<JsonNode> at(std::string_view key) const;
  Result<std::string_view> string_at(std::string_view key) const;
  // Absent: the default.
  Result<std::string_view> string_or(std::string_view key, std::string_view otherwise) const;
  Result<std::optional<std::int64_t>> integer_at(std::string_view key) const;
  Result<std::optional<double>> number_at(std::string_view key) const;
  Result<std::optional<bool>> bool_at(std::string_view key) const;

  Result<void> expect_object() const;
  Result<void> expect_array() const;

  // visit(const JsonNode&) -> Result<void>, in order, until one fails.
  template <class Visit>
  Result<void> for_each(Visit visit) const {
    TRY_VOID(expect_array());
    std::size_t index = 0;
    for (const simdjson::dom::element element : simdjson::dom::array(value_))
      TRY_VOID(visit(JsonNode(element, *this, index++)));
    return {};
  }
  // visit(std::string_view key, const JsonNode&) -> Result<void>; null values too.
  template <class Visit>
  Result<void> for_each_field(Visit visit) const {
    TRY_VOID(expect_object());
    for (const auto& [key, element] : simdjson::dom::object(value_))
      TRY_VOID(visit(key, JsonNode(element, *this, key)));
    return {};
  }

 private:
  std::string path() const;

  simdjson::dom::element value_;
  const JsonNode* parent_ = nullptr;
  std::string_view key_ = {};
  std::size_t index_ = 0;
};

// Holds what its nodes point into. One document at a time.
class JsonDocument {
 public:
  // Refuses what is no JSON, is not UTF-8, or is nested too deeply.
  Result<JsonNode> parse(std::string_view text);

 private:
  simdjson::dom::parser parser_;
};

}  // namespace pons::models
