#include "pons/api/fields.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::api {

namespace {

constexpr std::size_t kMetadataMax = 16;
constexpr TextLimits kKeyLimits{.min = 1, .max = 64};
constexpr TextLimits kValueLimits{.max = 512};
constexpr std::int64_t kNanoPerCent = 10'000'000;

// Of UTF-8: bytes that do not go on with a character.
std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

Result<std::string> text_within(const JsonPlace& place, TextLimits limits) {
  std::string text = TRY(place.text());
  const std::size_t count = count_characters(text);
  if (count < limits.min)
    return place.refuse(limits.min == 1 ? std::string("is empty")
                                        : fmt::format("is shorter than {}", limits.min));
  if (count > limits.max)
    return place.refuse(fmt::format("is longer than {} characters", limits.max));
  if (text.find('\0') != std::string::npos) return place.refuse("holds a NUL");
  return text;
}

Result<void> check_count(const Json& metadata, const JsonPlace& place) {
  if (metadata.size() > kMetadataMax)
    return place.refuse(fmt::format("has more than {} keys", kMetadataMax));
  return {};
}

}  // namespace

bool has_value(const JsonPlace& place, const char* key) {
  return place.has(key) && !place.value.at(key).is_null();
}

Result<std::string> needed_text(const JsonPlace& place, const char* key, TextLimits limits) {
  if (!has_value(place, key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  return text_within(place.at(key), limits);
}

Result<std::optional<std::string>> optional_text(const JsonPlace& place, const char* key,
                                                 TextLimits limits) {
  if (!has_value(place, key)) return std::optional<std::string>();
  return std::optional(TRY(text_within(place.at(key), limits)));
}

Result<std::optional<std::string>> optional_word(const JsonPlace& place, const char* key,
                                                 std::initializer_list<std::string_view> words) {
  if (!has_value(place, key)) return std::optional<std::string>();
  std::string word = TRY(place.at(key).text());
  if (std::ranges::find(words, word) == words.end())
    return place.at(key).refuse(fmt::format("must be one of {}", fmt::join(words, ", ")));
  return std::optional(std::move(word));
}

Result<std::string> type_of(const JsonPlace& place, std::initializer_list<std::string_view> words) {
  if (!place.value.is_object()) return place.refuse("must be an object");
  auto word = TRY(optional_word(place, "type", words));
  if (!word) return place.refuse("\"type\" is missing");
  return *word;
}

Result<bool> flag_or(const JsonPlace& place, const char* key, bool otherwise) {
  if (!has_value(place, key)) return otherwise;
  return place.at(key).flag();
}

Result<std::vector<std::string>> text_list(const JsonPlace& place, const char* key,
                                           std::size_t entries_max, TextLimits limits) {
  std::vector<std::string> list;
  if (!has_value(place, key)) return list;
  const JsonPlace entries = place.at(key);
  TRY_VOID(entries.expect_list(entries_max));
  for (std::size_t i = 0; i < entries.value.size(); ++i)
    list.push_back(TRY(text_within(entries.at(i), limits)));
  return list;
}

Result<Json> read_metadata(const JsonPlace& place, const char* key) {
  return patch_metadata(Json::object(), place, key);
}

Result<Json> patch_metadata(const Json& before, const JsonPlace& place, const char* key,
                            EmptyValue empty) {
  Json after = before;
  if (!has_value(place, key)) return after;
  const JsonPlace patch = place.at(key);
  if (!patch.value.is_object()) return patch.refuse("must be an object");
  for (const auto& [name, value] : patch.value.items()) {
    const Json named = name;
    TRY_VOID(text_within({named, patch.at(name).pointer}, kKeyLimits));
    const bool deletes = value.is_null() || (empty == EmptyValue::kDeletes && value.is_string() &&
                                             value.get_ref<const std::string&>().empty());
    if (deletes)
      after.erase(name);
    else
      after[name] = TRY(text_within(patch.at(name), kValueLimits));
  }
  TRY_VOID(check_count(after, patch));
  return after;
}

Result<std::int64_t> read_money(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"amount", "currency"}));
  const std::string amount = TRY(needed_text(place, "amount", {.min = 1, .max = 12}));
  const auto currency = TRY(optional_word(place, "currency", {"USD"}));
  if (!currency) return place.refuse("\"currency\" is missing");
  const auto cents = parse_decimal(amount);
  constexpr std::uint64_t kCentsMax = 100'000'000;  // a million dollars
  if (!cents || *cents == 0 || *cents > kCentsMax)
    return place.at("amount").refuse("must be a whole number of cents, from 1 to 100000000");
  return static_cast<std::int64_t>(*cents) * kNanoPerCent;
}

Json write_money(std::int64_t nano) {
  return {{"amount", fmt::format("{}", (nano + kNanoPerCent - 1) / kNanoPerCent)},
          {"currency", "USD"}};
}

Json or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json(nullptr);
}

}  // namespace pons::api
