#include "pons/budget/keys.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "key_rows.h"
#include "moment.h"
#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::budget {

namespace {

constexpr std::size_t kSecretBytes = 20;
constexpr std::int64_t kPageRows = 5'000;
constexpr std::size_t kExpiredAtOnce = 100;
constexpr std::int64_t kNeverMs = 0;

constexpr std::array<std::string_view, 6> kKindNames = {"org",   "team",     "user",
                                                        "agent", "schedule", "session"};

struct KeyTag {
  static constexpr std::string_view kPrefix = "mk";
};

std::string random_digits() {
  std::string bytes(kSecretBytes, '\0');
  random_bytes(bytes.data(), bytes.size());
  std::string digits = to_hex(bytes);
  wipe(bytes.data(), bytes.size());
  return digits;
}

bool is_secret_digits(std::string_view text) {
  return text.size() == 2 * kSecretBytes && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string agent_id(std::string_view root_id, std::string_view name) {
  constexpr std::size_t kDigits = 26;
  return fmt::format("{}_a{}", KeyTag::kPrefix,
                     sha256_hex(fmt::format("{}\n{}", root_id, name)).substr(0, kDigits));
}

// As a key's name may be.
std::string shown_name(std::string name) {
  constexpr std::size_t kBytesMax = 128;
  std::ranges::replace_if(
      name, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; }, ' ');
  if (name.size() > kBytesMax) name.resize(kBytesMax);
  while (!name.empty() && !is_valid_utf8(name)) name.pop_back();
  return name.empty() ? "agent" : name;
}

bool is_of_agent(const Key& key) {
  return key.kind == KeyKind::kAgent && key.hash.empty();
}

Error denied(const char* message) {
  return make_error(ErrorCode::kDenied, "find key", message);
}

Error not_good(std::string_view id) {
  return make_error(ErrorCode::kNotFound, "find key",
                    fmt::format("there is no key \"{}\" that is good", id.substr(0, 128)));
}

store::Value or_null(const std::string& text) {
  return text.empty() ? store::Value(store::Null()) : store::Value(text);
}

store::Value or_null(const std::optional<std::int64_t>& number) {
  return number ? store::Value(*number) : store::Value(store::Null());
}

// Only below a parent that is good, so that nobody slips in while his parent is being revoked.
store::Statement insertion(const Key& key) {
  return {.sql = fmt::format(
              "INSERT INTO model_keys ({}) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, "
              "NULL WHERE CAST($3 AS TEXT) IS NULL OR EXISTS "
              "(SELECT 1 FROM model_keys WHERE id = $3 AND revoked IS NULL) "
              "ON CONFLICT DO NOTHING",
              kKeyColumns),
          .values = {key.id, key.project_id, or_null(key.parent_id), std::string(name_of(key.kind)),
                     key.name, or_null(key.hash), limits_text(key.limits),
                     std::int64_t{key.soft_percent}, models_text(key.models), key.created_ms,
                     or_null(key.expires_ms)}};
}

Key with(Key key, const KeyChange& change) {
  if (change.name) key.name = *change.name;
  if (change.limits) key.limits = *change.limits;
  if (change.soft_percent) key.soft_percent = *change.soft_percent;
  if (change.models) key.models = *change.models;
  if (change.expires_ms) key.expires_ms = change.expires_ms;
  if (key.expires_ms == kNeverMs) key.expires_ms.reset();
  return key;
}

// Only of what is in the change: another one may be on its way to the store.
store::Statement updating(const Key& key, const KeyChange& change) {
  store::Statement update{.sql = "UPDATE model_keys SET id = $1", .values = {key.id}};
  const auto set = [&](const char* column, store::Value value) {
    update.values.push_back(std::move(value));
    update.sql += fmt::format(", {} = ${}", column, update.values.size());
  };
  if (change.name) set("name", key.name);
  if (change.limits) set("limits", limits_text(key.limits));
  if (change.soft_percent) set("soft_percent", std::int64_t{key.soft_percent});
  if (change.models) set("models", models_text(key.models));
  if (change.expires_ms) set("expires", or_null(key.expires_ms));
  update.sql += " WHERE id = $1 AND revoked IS NULL";
  update.must_change = 1;
  return update;
}

}  // namespace

std::string_view name_of(KeyKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

bool has_sandboxes(const Key& key) {
  return key.parent_id.empty() || is_of_agent(key);
}

std::optional<KeyKind> parse_kind(std::string_view name) {
  const auto found = std::ranges::find(kKindNames, name);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<KeyKind>(found - kKindNames.begin());
}

// ---- in memory

const Key* Keys::look_up(std::string_view id) const {
  const auto found = keys_.find(id);
  return found == keys_.end() ? nullptr : &found->second;
}

void Keys::add(Key key) {
  counters_.put(key.id, key.parent_id, key.limits, key.soft_percent);
  if (!key.hash.empty()) id_of_hash_[key.hash] = key.id;
  if (key.parent_id.empty()) root_of_project_[key.project_id] = key.id;
  if (is_of_agent(key) && look_up(key.id) == nullptr) ++agents_of_root_[key.parent_id];
  std::string id = key.id;
  keys_.insert_or_assign(std::move(id), std::move(key));
}

void Keys::remove(const std::string& id) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return;
  id_of_hash_.erase(found->second.hash);
  if (is_of_agent(found->second)) --agents_of_root_[found->second.parent_id];
  keys_.erase(found);
  counters_.remove(id);
}

bool Keys::is_below(const Key& key, std::string_view above) const {
  for (const Key* one = &key; one != nullptr; one = look_up(one->parent_id))
    if (one->id == above) return true;
  return false;
}

void Keys::for_each(std::string_view project_id, std::string_view above,
                    const std::function<void(const Key&)>& see) const {
  for (const auto& [id, key] : keys_)
    if ((project_id.empty() || key.project_id == project_id) &&
        (above.empty() || is_below(key, above)))
      see(key);
}

Result<const Key*> Keys::find(std::string_view id) const {
  const Key* found = look_up(id);
  if (found == nullptr) return denied("there is no such key, or it was revoked");
  const std::int64_t now = moment_ms(clock_);
  for (const Key* key = found;; key = look_up(key->parent_id)) {
    if (key == nullptr) return denied("a key above it was revoked");
    if (key->expires_ms && *key->expires_ms <= now) return denied("the key has expired");
    if (key->parent_id.empty()) return found;
  }
}

Result<const Key*> Keys::find_by_secret(std::string_view text) const {
  const Error unknown = denied("this is not a key for models, or it was revoked");
  if (!text.starts_with(kSecretPrefix)) return unknown;
  text.remove_prefix(kSecretPrefix.size());
  if (!is_secret_digits(text)) return unknown;
  return find_by_hash(sha256_hex(text));
}

// Hashes are compared, never secrets: how long that takes tells nothing of a secret.
Result<const Key*> Keys::find_by_hash(std::string_view hash) const {
  const auto found = id_of_hash_.find(std::string(hash));
  if (found == id_of_hash_.end()) return denied("this is not a key for models, or it was revoked");
  return find(found->second);
}

Result<void> Keys::may_call(const Key& key, std::string_view model) const {
  for (const Key* one = &key; one != nullptr; one = look_up(one->parent_id)) {
    const auto matches = [&](const std::string& name) { return matches_pattern(name, model); };
    if (one->models.empty() || std::ranges::any_of(one->models, matches)) continue;
    return make_error(ErrorCode::kDenied, "check model",
                      fmt::format("the key \"{}\" ({}) may not call the model \"{}\"", one->name,
                                  one->id, model.substr(0, 128)));
  }
  return {};
}

std::string Keys::path_of(const Key& key) const {
  std::string path = key.id;
  for (const Key* one = look_up(key.parent_id); one != nullptr; one = look_up(one->parent_id))
    path = fmt::format("{}/{}", one->id, path);
  return path;
}

Result<void> Keys::check_new(const Key& key) const {
  TRY_VOID(check_fields(key, moment_ms(clock_)));
  const Key* parent = TRY(find(key.parent_id));
  const auto refuse = [](std::string message) {
    return make_error(ErrorCode::kInvalid, "create key", std::move(message));
  };
  if (parent->project_id != key.project_id)
    return refuse("a key belongs to the project of its parent");
  if (key.kind <= parent->kind)
    return refuse(fmt::format("a key of kind {} cannot stand below one of kind {}",
                              name_of(key.kind), name_of(parent->kind)));
  std::size_t depth = 1;
  for (const Key* one = parent; one != nullptr; one = look_up(one->parent_id)) ++depth;
  if (depth > kKeyDepthMax) return refuse("the tree of keys is at most 8 deep");
  if (keys_.size() >= kGoodKeysMax)
    return make_error(
        ErrorCode::kLimit, "create key",
        fmt::format("{} keys are good, which is the most; revoke some", kGoodKeysMax));
  return {};
}

// ---- in the store

Task<Result<void>> Keys::load() {
  TextMap<Key> read;
  for (std::string last;;) {
    CO_TRY(const auto rows,
           co_await store_.read(
               {.sql = fmt::format("SELECT {} FROM model_keys WHERE revoked IS NULL AND id > $1 "
                                   "ORDER BY id LIMIT $2",
                                   kKeyColumns),
                .values = {last, kPageRows}}));
    for (const store::Row& row : rows) {
      CO_TRY(Key key, key_of(row));
      last = key.id;
      read.insert_or_assign(last, std::move(key));
    }
    if (std::ssize(rows) < kPageRows) break;
  }
  // Kinds go down, so parents come before their children.
  std::vector<Key*> ordered;
  for (auto& [id, key] : read) ordered.push_back(&key);
  std::ranges::sort(ordered, {}, &Key::kind);
  for (Key* key : ordered) {
    if (key->parent_id.empty() || look_up(key->parent_id) != nullptr)
      add(std::move(*key));
    else
      LOG_WARN("a key is left out: the one above it is not good", {"key", key->id});
  }
  co_return {};
}

Task<Result<Key>> Keys::ensure_root(std::string project_id) {
  if (const auto known = root_of_project_.find(project_id); known != root_of_project_.end())
    co_return keys_.at(known->second);
  Key root{.id = Id<KeyTag>::generate().text(),
           .project_id = project_id,
           .name = project_id,
           .created_ms = moment_ms(clock_)};
  CO_TRY_VOID(check_fields(root, root.created_ms));
  CO_TRY_VOID(co_await store_.write({insertion(root)}));
  CO_TRY(const auto rows,
         co_await store_.read({.sql = fmt::format("SELECT {} FROM model_keys WHERE project_id = $1 "
                                                  "AND parent_id IS NULL",
                                                  kKeyColumns),
                               .values = {project_id}}));
  if (rows.empty()) co_return not_good(project_id);
  CO_TRY(Key stored, key_of(rows.front()));
  // Someone else may have asked for it meanwhile, and changed it since.
  if (const auto known = root_of_project_.find(project_id); known != root_of_project_.end())
    co_return keys_.at(known->second);
  add(stored);
  co_return stored;
}

Task<Result<Key>> Keys::ensure_agent(std::string project_id, std::string name) {
  CO_TRY(Key root, co_await ensure_root(std::move(project_id)));
  // The same each time, so that one that was revoked stays so.
  const std::string id = agent_id(root.id, name);
  if (const auto known = keys_.find(id); known != keys_.end()) co_return known->second;
  const auto find_stored = [&] {
    return store_.read({.sql = fmt::format("SELECT {} FROM model_keys WHERE id = $1", kKeyColumns),
                        .values = {id}});
  };
  // Others need keys, too. Whose key was revoked stays out all the same.
  if (agents_of_root_[root.id] >= kAgentsMax || keys_.size() >= kGoodKeysMax / 2) {
    CO_TRY(const auto former, co_await find_stored());
    if (former.empty()) co_return std::move(root);
    co_return denied("the key of this agent was revoked");
  }
  Key agent{.id = id,
            .project_id = root.project_id,
            .parent_id = root.id,
            .kind = KeyKind::kAgent,
            .name = shown_name(std::move(name)),
            .created_ms = moment_ms(clock_)};
  CO_TRY_VOID(check_new(agent));
  CO_TRY_VOID(co_await store_.write({insertion(agent)}));
  CO_TRY(const auto rows, co_await find_stored());
  if (rows.empty()) co_return not_good(id);
  CO_TRY(Key stored, key_of(rows.front()));
  if (stored.revoked_ms) co_return denied("the key of this agent was revoked");
  // Someone else may have asked for it meanwhile, and changed it since.
  if (const auto known = keys_.find(id); known != keys_.end()) co_return known->second;
  add(stored);
  co_return stored;
}

Task<Result<NewKey>> Keys::create(KeyWish wish) {
  if (wish.parent_id.empty()) {
    CO_TRY(const Key root, co_await ensure_root(wish.project_id));
    wish.parent_id = root.id;
  }
  std::string digits = wish.secrecy == KeyWish::Secrecy::kSecret ? random_digits() : std::string();
  NewKey made{.key = {.id = Id<KeyTag>::generate().text(),
                      .project_id = std::move(wish.project_id),
                      .parent_id = std::move(wish.parent_id),
                      .kind = wish.kind,
                      .name = std::move(wish.name),
                      .hash = digits.empty() ? std::string() : sha256_hex(digits),
                      .limits = std::move(wish.limits),
                      .soft_percent = wish.soft_percent,
                      .models = std::move(wish.models),
                      .created_ms = moment_ms(clock_),
                      .expires_ms = wish.expires_ms}};
  if (!digits.empty()) made.text = Secret(std::string(kSecretPrefix) + digits);
  wipe(digits.data(), digits.size());
  CO_TRY_VOID(check_new(made.key));
  CO_TRY(const auto written, co_await store_.write({insertion(made.key)}));
  if (written.front().changed != 1 || look_up(made.key.parent_id) == nullptr)
    co_return make_error(ErrorCode::kConflict, "create key",
                         "the key above it was revoked meanwhile");
  add(made.key);
  co_return std::move(made);
}

Task<Result<Key>> Keys::update(std::string id, KeyChange change) {
  const Key* before = look_up(id);
  if (before == nullptr) co_return not_good(id);
  const Key wished = with(*before, change);
  CO_TRY_VOID(check_fields(wished, moment_ms(clock_)));
  const auto written = co_await store_.write({updating(wished, change)});
  if (!written && written.error().code == ErrorCode::kConflict) co_return not_good(id);
  if (!written) co_return written.error();
  const Key* const now = look_up(id);  // with what others have changed meanwhile
  if (now == nullptr) co_return not_good(id);
  Key changed = with(*now, change);
  add(changed);
  co_return changed;
}

Task<Result<void>> Keys::revoke(std::string id) {
  const Key* key = look_up(id);
  if (key == nullptr) co_return not_good(id);
  if (key->parent_id.empty())
    co_return make_error(ErrorCode::kInvalid, "revoke key",
                         "the root of a project cannot be revoked; give it a limit of 0");
  const KeyKind kind = key->kind;
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "UPDATE model_keys SET revoked = $1 WHERE revoked IS NULL AND id IN ("
               "WITH RECURSIVE below (id) AS (SELECT id FROM model_keys WHERE id = $2 UNION "
               "SELECT k.id FROM model_keys k JOIN below b ON k.parent_id = b.id) "
               "SELECT id FROM below)",
        .values = {moment_ms(clock_), id}}}));
  std::vector<std::string> gone = {id};
  if (kind != KeyKind::kSession)  // nothing stands below a session
    for (const auto& [each, one] : keys_)
      if (one.kind > kind && is_below(one, id)) gone.push_back(each);
  for (const std::string& each : gone) remove(each);
  co_return {};
}

Task<Result<void>> Keys::revoke_expired() {
  const std::int64_t now = moment_ms(clock_);
  std::vector<std::string> expired;
  for (const auto& [id, key] : keys_)
    if (key.expires_ms && *key.expires_ms <= now && expired.size() < kExpiredAtOnce)
      expired.push_back(id);
  for (const std::string& id : expired)
    // It may have gone with one above it.
    if (look_up(id) != nullptr) CO_TRY_VOID(co_await revoke(id));
  co_return {};
}

Task<Result<std::vector<Key>>> Keys::list(KeyList which) {
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = fmt::format("SELECT {} FROM model_keys WHERE project_id = $1 AND id > $2 "
                                 "AND ($3 = '' OR parent_id = $3) "
                                 "AND ($5 = 0 OR revoked IS NULL) ORDER BY id LIMIT $4",
                                 kKeyColumns),
              .values = {which.project_id, which.after, which.parent_id,
                         std::clamp<std::int64_t>(which.rows_max, 1, kPageRows),
                         std::int64_t{which.which == KeyList::Which::kGood ? 1 : 0}}}));
  std::vector<Key> keys;
  for (const store::Row& row : rows) {
    CO_TRY(Key key, key_of(row));
    keys.push_back(std::move(key));
  }
  co_return keys;
}

}  // namespace pons::budget
