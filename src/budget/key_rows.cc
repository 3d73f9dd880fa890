#include "key_rows.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/base/text.h"

namespace pons::budget {

namespace {

constexpr std::size_t kNameMax = 128;
constexpr std::size_t kModelsMax = 64;
constexpr int kWholePercent = 100;

Error refuse(std::string message) {
  return make_error(ErrorCode::kInvalid, "check key", std::move(message));
}

Result<std::string> optional_text_of(const store::Row& row, std::size_t column) {
  if (column < row.size() && std::holds_alternative<store::Null>(row[column])) return std::string();
  return store::text_of(row, column);
}

Result<std::vector<std::string>> parse_models(std::string_view text) {
  const Json list = TRY(parse_json(text, {.depth = 2, .bytes = 64ULL << 10}));
  const Error wrong = make_error(ErrorCode::kIo, "read key", "its models are not a list of names");
  if (!list.is_array()) return wrong;
  std::vector<std::string> models;
  for (const Json& model : list) {
    if (!model.is_string()) return wrong;
    models.push_back(model.get<std::string>());
  }
  return models;
}

bool is_graphic(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; });
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < ' ' || c == 0x7F;
}

}  // namespace

Result<Key> key_of(const store::Row& row) {
  const auto kind = parse_kind(TRY(store::text_of(row, 3)));
  if (!kind) return make_error(ErrorCode::kIo, "read key", "its kind is not known here");
  const std::string limits = TRY(store::text_of(row, 6));
  const std::string models = TRY(store::text_of(row, 8));
  return Key{.id = TRY(store::text_of(row, 0)),
             .project_id = TRY(store::text_of(row, 1)),
             .parent_id = TRY(optional_text_of(row, 2)),
             .kind = *kind,
             .name = TRY(store::text_of(row, 4)),
             .hash = TRY(optional_text_of(row, 5)),
             .limits = TRY(parse_limits(limits)),
             .soft_percent = static_cast<int>(TRY(store::integer_of(row, 7))),
             .models = TRY(parse_models(models)),
             .created_ms = TRY(store::integer_of(row, 9)),
             .expires_ms = TRY(store::optional_integer_of(row, 10)),
             .revoked_ms = TRY(store::optional_integer_of(row, 11))};
}

std::string models_text(const std::vector<std::string>& models) {
  return dump_json(Json(models));
}

Result<void> check_fields(const Key& key, std::int64_t now_ms) {
  if (!is_id_text(key.project_id)) return refuse("the project's id is not one");
  if (key.name.empty() || key.name.size() > kNameMax || !is_valid_utf8(key.name) ||
      std::ranges::any_of(key.name, is_control))
    return refuse("a key's name has 1 to 128 bytes and no control characters");
  if (key.soft_percent < 1 || key.soft_percent > kWholePercent)
    return refuse("the percentage to warn at is from 1 to 100");
  if (key.models.size() > kModelsMax) return refuse("a key names at most 64 models");
  for (const std::string& model : key.models)
    if (model.empty() || model.size() > kNameMax || !is_graphic(model))
      return refuse("a model's name has 1 to 128 visible ASCII characters; * stands for anything");
  if (key.expires_ms && key.parent_id.empty())
    return refuse("the root of a project does not expire");
  if (key.expires_ms && *key.expires_ms <= now_ms)
    return refuse("the key would be over already: its end is not in the future");
  TRY_VOID(parse_limits(limits_text(key.limits)));
  return {};
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace pons::budget
