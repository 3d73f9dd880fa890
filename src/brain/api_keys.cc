#include "api_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/text.h"
#include "projects.h"

namespace pons::brain {

namespace {

constexpr std::size_t kKeyBytes = 20;
constexpr std::int64_t kListedMax = 10'000;

struct KeyTag {
  static constexpr std::string_view kPrefix = "key";
};

std::string random_digits() {
  std::string bytes(kKeyBytes, '\0');
  random_bytes(bytes.data(), bytes.size());
  std::string digits = to_hex(bytes);
  wipe(bytes.data(), bytes.size());
  return digits;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view word : split(text, ' '))
    if (!word.empty()) words.emplace_back(word);
  return words;
}

Result<std::vector<ApiKey>> keys_of(const std::vector<store::Row>& rows) {
  std::vector<ApiKey> keys;
  for (const store::Row& row : rows)
    keys.push_back({.id = TRY(store::text_of(row, 0)),
                    .project_id = TRY(store::text_of(row, 1)),
                    .name = TRY(store::text_of(row, 2)),
                    .hash = TRY(store::text_of(row, 3)),
                    .scopes = words_of(TRY(store::text_of(row, 4))),
                    .created_ms = TRY(store::integer_of(row, 5)),
                    .revoked_ms = TRY(store::optional_integer_of(row, 6))});
  return keys;
}

}  // namespace

std::vector<std::string> default_scopes() {
  return {kScopes.begin(), kScopes.end() - 2};
}

bool is_scope(std::string_view text) {
  return std::ranges::find(kScopes, text) != kScopes.end();
}

Task<Result<NewApiKey>> ApiKeys::create(std::string project_id, std::string name,
                                        std::vector<std::string> scopes) {
  std::string digits = random_digits();
  NewApiKey made{.key = {.id = Id<KeyTag>::generate().text(),
                         .project_id = std::move(project_id),
                         .name = std::move(name),
                         .hash = sha256_hex(digits),
                         .scopes = std::move(scopes),
                         .created_ms = wall_ms(clock_),
                         .revoked_ms = std::nullopt},
                 .text = Secret(std::string(kKeyPrefix) + digits)};
  wipe(digits.data(), digits.size());
  CO_TRY(const auto written,
         co_await store_.write(
             {{.sql = "INSERT INTO api_keys (id, project_id, name, hash, scopes, created) "
                      "SELECT $1, $2, $3, $4, $5, $6 "
                      "WHERE (SELECT count(*) FROM api_keys WHERE revoked IS NULL) < $7",
               .values = {made.key.id, made.key.project_id, made.key.name, made.key.hash,
                          fmt::format("{}", fmt::join(made.key.scopes, " ")), made.key.created_ms,
                          static_cast<std::int64_t>(kActiveKeysMax)}}}));
  if (written.front().changed == 0)
    co_return make_error(
        ErrorCode::kLimit, "create key",
        fmt::format("{} keys are in use, which is the most; revoke some", kActiveKeysMax));
  co_return std::move(made);
}

Task<Result<std::vector<ApiKey>>> ApiKeys::list(std::optional<std::string> project_id) {
  store::Statement all{.sql =
                           "SELECT id, project_id, name, hash, scopes, created, revoked "
                           "FROM api_keys ORDER BY created DESC, id LIMIT $1",
                       .values = {kListedMax}};
  store::Statement own{.sql =
                           "SELECT id, project_id, name, hash, scopes, created, revoked "
                           "FROM api_keys WHERE project_id = $2 "
                           "ORDER BY created DESC, id LIMIT $1",
                       .values = {kListedMax, project_id.value_or("")}};
  CO_TRY(const auto rows, co_await store_.read(project_id ? std::move(own) : std::move(all)));
  co_return keys_of(rows);
}

Task<Result<std::vector<ApiKey>>> ApiKeys::active() {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = "SELECT id, project_id, name, hash, scopes, created, revoked "
                                      "FROM api_keys WHERE revoked IS NULL",
                               .values = {}}));
  co_return keys_of(rows);
}

Task<Result<void>> ApiKeys::revoke(std::string id, std::optional<std::string> project_id) {
  store::Statement any{.sql = "UPDATE api_keys SET revoked = COALESCE(revoked, $1) WHERE id = $2",
                       .values = {wall_ms(clock_), id},
                       .must_change = 1};
  store::Statement own{.sql =
                           "UPDATE api_keys SET revoked = COALESCE(revoked, $1) "
                           "WHERE id = $2 AND project_id = $3",
                       .values = {wall_ms(clock_), id, project_id.value_or("")},
                       .must_change = 1};
  auto written = co_await store_.write({project_id ? std::move(own) : std::move(any)});
  if (!written && written.error().code == ErrorCode::kConflict)
    co_return make_error(ErrorCode::kNotFound, "revoke key",
                         fmt::format("there is no key \"{}\"", id));
  if (!written) co_return written.error();
  co_return {};
}

}  // namespace pons::brain
