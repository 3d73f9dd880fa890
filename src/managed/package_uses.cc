#include "pons/managed/package_uses.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/log.h"

namespace pons::managed {

namespace {

using store::Statement;

constexpr std::int64_t kSetsOfProjectMax = 50;
constexpr std::int64_t kSetsMax = 1'000;  // the warden keeps no more templates
// A session's packages are kept before the session is.
constexpr std::chrono::milliseconds kBeforeItsSession = std::chrono::hours(1);

constexpr const char* kOfEnvironments =
    "EXISTS (SELECT 1 FROM environments AS e WHERE e.id = u.user_id AND e.archived IS NULL)";
constexpr const char* kOfSessions =
    "EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = u.user_id AND s.archived IS NULL)";

Statement insertion(const std::string& user, const std::string& project, const PackageSet& set,
                    std::int64_t now_ms) {
  return {.sql =
              "INSERT INTO package_uses (user_id, project_id, digest, recipe, created) "
              "VALUES ($1, $2, $3, $4, $5) ON CONFLICT (user_id) DO NOTHING",
          .values = {user, project, set.digest(), set.recipe(), now_ms}};
}

}  // namespace

std::int64_t PackageUses::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

std::vector<Statement> PackageUses::of_environment(const Document& environment) {
  std::vector<Statement> statements = {
      {.sql = "DELETE FROM package_uses WHERE user_id = $1", .values = {environment.id}}};
  const auto said = parse_json(environment.text);
  const auto set = said ? package_set_of(*said) : std::nullopt;
  if (set)
    statements.push_back(
        insertion(environment.id, environment.project, *set, environment.updated_ms));
  return statements;
}

Task<Result<void>> PackageUses::check_room(std::string project, std::string environment,
                                           const PackageSet& set) {
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = fmt::format("SELECT COUNT(DISTINCT u.digest) FROM package_uses AS u WHERE "
                                 "u.project_id = $1 AND u.user_id <> $2 AND u.digest <> $3 AND {}",
                                 kOfEnvironments),
              .values = {std::move(project), std::move(environment), set.digest()}}));
  CO_TRY(const auto others, store::integer_of(rows.at(0), 0));
  if (others < kSetsOfProjectMax) co_return {};
  co_return make_error(
      ErrorCode::kLimit, "keep packages",
      fmt::format("the environments of a project have at most {} different sets of "
                  "packages; archive some",
                  kSetsOfProjectMax));
}

Task<Result<void>> PackageUses::keep_for_session(std::string session, std::string project,
                                                 PackageSet set) {
  CO_TRY_VOID(co_await store_.write({insertion(session, project, set, now_ms())}));
  co_return {};
}

Task<Result<std::vector<PackageSet>>> PackageUses::wanted() {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = fmt::format("SELECT DISTINCT u.digest, u.recipe FROM "
                                                  "package_uses AS u WHERE {} ORDER BY u.digest "
                                                  "LIMIT {}",
                                                  kOfEnvironments, kSetsMax),
                               .values = {}}));
  std::vector<PackageSet> sets;
  for (const store::Row& row : rows) {
    CO_TRY(const auto recipe, store::text_of(row, 1));
    auto set = read_recipe(recipe);
    if (set)
      sets.push_back(std::move(*set));
    else
      LOG_ERROR("a set of packages in the store makes no sense", {"error", set.error()});
  }
  co_return sets;
}

Task<Result<std::set<std::string>>> PackageUses::in_use() {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = fmt::format("SELECT DISTINCT u.digest FROM package_uses AS u "
                                                  "WHERE {} OR {}",
                                                  kOfEnvironments, kOfSessions),
                               .values = {}}));
  std::set<std::string> digests;
  for (const store::Row& row : rows) {
    CO_TRY(auto digest, store::text_of(row, 0));
    digests.insert(std::move(digest));
  }
  co_return digests;
}

Task<Result<std::optional<PackageSet>>> PackageUses::find(std::string digest) {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = "SELECT recipe FROM package_uses WHERE digest = $1 LIMIT 1",
                               .values = {std::move(digest)}}));
  if (rows.empty()) co_return std::nullopt;
  CO_TRY(const auto recipe, store::text_of(rows.front(), 0));
  CO_TRY(auto set, read_recipe(recipe));
  co_return set;
}

Task<Result<void>> PackageUses::sweep() {
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "DELETE FROM package_uses WHERE created < $1 "
               "AND NOT EXISTS (SELECT 1 FROM environments AS e WHERE e.id = user_id) "
               "AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = user_id)",
        .values = {now_ms() - kBeforeItsSession.count()}}}));
  co_return {};
}

}  // namespace pons::managed
