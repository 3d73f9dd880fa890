#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace pons::models {

// Appends JSON to a string as it is said. Strings must be UTF-8 and raw text must be JSON: both
// come from a reader that has checked it.
//
//   JsonWriter json(out);
//   json.begin_object().field("model", name).key("tools").begin_array() …
//   .end_array().end_object();
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view text);
  JsonWriter& raw(std::string_view json);
  JsonWriter& integer(std::int64_t number);
  JsonWriter& number(double number);
  JsonWriter& boolean(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }

  JsonWriter& field(std::string_view name, std::string_view text) { return key(name).string(text); }
  JsonWriter& field(std::string_view name, const char* text) { return key(name).string(text); }
  JsonWriter& field(std::string_view name, std::same_as<bool> auto truth) {
    return key(name).boolean(truth);
  }
  JsonWriter& field(std::string_view name, std::integral auto value)
    requires(!std::same_as<decltype(value), bool>)
  {
    return key(name).integer(static_cast<std::int64_t>(value));
  }
  JsonWriter& field(std::string_view name, double value) { return key(name).number(value); }
  JsonWriter& raw_field(std::string_view name, std::string_view json) {
    return key(name).raw(json);
  }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string& out_;
  bool first_ = true;  // nothing stands before the next value here
};

}  // namespace pons::models
