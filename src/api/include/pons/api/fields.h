#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/json_place.h"

// Members of request bodies. Each refusal names the place as a JSON pointer. A member that is null
// counts as one that is not there, unless a function says otherwise. Brings json.hpp with it.

namespace pons::api {

struct TextLimits {
  std::size_t min = 0;
  std::size_t max = 255;  // characters
};

bool has_value(const JsonPlace& place, const char* key);  // there, and not null
Result<std::string> needed_text(const JsonPlace& place, const char* key, TextLimits limits);
// Nothing when it is null or not there.
Result<std::optional<std::string>> optional_text(const JsonPlace& place, const char* key,
                                                 TextLimits limits);
// One of the words; nothing when it is not there.
Result<std::optional<std::string>> optional_word(const JsonPlace& place, const char* key,
                                                 std::initializer_list<std::string_view> words);
// "type" of an object, which has to be one of the words.
Result<std::string> type_of(const JsonPlace& place, std::initializer_list<std::string_view> words);
Result<bool> flag_or(const JsonPlace& place, const char* key, bool otherwise);
Result<std::vector<std::string>> text_list(const JsonPlace& place, const char* key,
                                           std::size_t entries_max, TextLimits limits);

// {"key": "value"}: up to 16, keys of 64 and values of 512 characters.
Result<Json> read_metadata(const JsonPlace& place, const char* key);
// What it becomes when some are set, and others (null) deleted.
enum class EmptyValue : std::uint8_t { kIsAValue, kDeletes };
Result<Json> patch_metadata(const Json& before, const JsonPlace& place, const char* key,
                            EmptyValue empty = EmptyValue::kIsAValue);

// {"amount": "2500", "currency": "USD"}: cents; here in billionths of a dollar.
Result<std::int64_t> read_money(const JsonPlace& place);
Json write_money(std::int64_t nano);  // rounded up to whole cents

// Null where there is nothing.
Json or_null(const std::optional<std::string>& text);

}  // namespace pons::api
