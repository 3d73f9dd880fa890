#include "message.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/base64.h"
#include "pons/base/text.h"

namespace pons::e2b {

namespace {

Error wrong(const char* name, const char* what) {
  return make_error(ErrorCode::kInvalid, "read message", fmt::format("\"{}\" {}", name, what));
}

}  // namespace

const Json* find_field(const Json& message, const char* name) {
  if (!message.is_object()) return nullptr;
  const auto found = message.find(name);
  return found == message.end() || found->is_null() ? nullptr : &*found;
}

Result<std::string> text_field(const Json& message, const char* name) {
  const Json* field = find_field(message, name);
  if (field == nullptr) return std::string();
  if (!field->is_string()) return wrong(name, "must be text");
  return field->get<std::string>();
}

Result<std::uint64_t> number_field(const Json& message, const char* name, std::uint64_t most) {
  const Json* field = find_field(message, name);
  if (field == nullptr) return std::uint64_t{0};
  std::optional<std::uint64_t> number;
  if (field->is_number_unsigned()) number = field->get<std::uint64_t>();
  if (field->is_string()) number = parse_decimal(field->get_ref<const std::string&>());
  if (!number || *number > most) return wrong(name, "is no number, or out of range");
  return *number;
}

Result<bool> flag_field(const Json& message, const char* name, bool otherwise) {
  const Json* field = find_field(message, name);
  if (field == nullptr) return otherwise;
  if (!field->is_boolean()) return wrong(name, "must be true or false");
  return field->get<bool>();
}

Result<std::optional<std::string>> bytes_field(const Json& message, const char* name) {
  const Json* field = find_field(message, name);
  if (field == nullptr) return std::optional<std::string>();
  if (!field->is_string()) return wrong(name, "must be base64");
  auto bytes = base64_decode(field->get_ref<const std::string&>());
  if (!bytes) return wrong(name, "must be base64");
  return bytes;
}

Result<std::vector<std::string>> list_field(const Json& message, const char* name) {
  std::vector<std::string> values;
  const Json* field = find_field(message, name);
  if (field == nullptr) return values;
  if (!field->is_array()) return wrong(name, "must be a list");
  for (const Json& value : *field) {
    if (!value.is_string()) return wrong(name, "must hold text");
    values.push_back(value.get<std::string>());
  }
  return values;
}

Result<std::map<std::string, std::string>> map_field(const Json& message, const char* name) {
  std::map<std::string, std::string> values;
  const Json* field = find_field(message, name);
  if (field == nullptr) return values;
  if (!field->is_object()) return wrong(name, "must be an object");
  for (const auto& [key, value] : field->items()) {
    if (!value.is_string()) return wrong(name, "must hold text");
    values[key] = value.get<std::string>();
  }
  return values;
}

}  // namespace pons::e2b
