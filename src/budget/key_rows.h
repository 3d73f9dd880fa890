#pragma once

#include <string>
#include <string_view>

#include "pons/budget/keys.h"

namespace pons::budget {

// The columns of model_keys in the order of key_of().
inline constexpr std::string_view kKeyColumns =
    "id, project_id, parent_id, kind, name, hash, limits, soft_percent, models, created, expires, "
    "revoked";
Result<Key> key_of(const store::Row& row);
std::string models_text(const std::vector<std::string>& models);

// What may stand in a key's fields, whoever its parent is.
Result<void> check_fields(const Key& key, std::int64_t now_ms);
// "claude-*" matches "claude-opus-5".
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace pons::budget
