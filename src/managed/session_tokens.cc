#include "pons/managed/session_tokens.h"

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/text.h"

namespace pons::managed {

namespace {

constexpr std::string_view kPrefix = "pons_work_";
constexpr std::size_t kLength = 40;
constexpr std::size_t kIdLength = 26;
// Before the first report.
constexpr Duration kFirstTime = std::chrono::minutes(15);
constexpr std::int64_t kRowsMax = 10'000;

std::int64_t milliseconds(Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace

std::int64_t SessionTokens::now_ms() const {
  return milliseconds(clock_.wall().time_since_epoch());
}

Task<Result<Secret>> SessionTokens::create(std::string project, std::string session,
                                           std::string work) {
  const std::string digits = random_text(kLength);
  const SessionToken token{.id = "wtok_" + random_text(kIdLength),
                           .project = std::move(project),
                           .session = std::move(session),
                           .work = std::move(work),
                           .hash = sha256_hex(digits),
                           .expires_ms = now_ms() + milliseconds(kFirstTime)};
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "INSERT INTO session_tokens (id, project_id, session_id, work_id, hash, expires) "
               "VALUES ($1, $2, $3, $4, $5, $6)",
        .values = {token.id, token.project, token.session, token.work, token.hash,
                   token.expires_ms}}}));
  door_.open(token);
  ++changes_;
  door_.tell_others();
  co_await door_.wait_until_heard();
  co_return Secret(std::string(kPrefix) + digits);
}

Task<Result<void>> SessionTokens::extend(std::string work, Duration time) {
  const std::int64_t until = now_ms() + milliseconds(std::max(time, kFirstTime));
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "UPDATE session_tokens SET expires = $1 WHERE work_id = $2 AND expires < $1",
        .values = {until, std::move(work)}}}));
  co_return {};
}

Task<Result<std::vector<SessionToken>>> SessionTokens::find(std::string condition,
                                                            store::Value value) {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = fmt::format("SELECT id, project_id, session_id, work_id, "
                                                  "hash, expires FROM session_tokens WHERE {} "
                                                  "LIMIT $2",
                                                  condition),
                               .values = {std::move(value), kRowsMax}}));
  std::vector<SessionToken> found;
  for (const store::Row& row : rows) {
    SessionToken& token = found.emplace_back();
    CO_TRY(token.id, store::text_of(row, 0));
    CO_TRY(token.project, store::text_of(row, 1));
    CO_TRY(token.session, store::text_of(row, 2));
    CO_TRY(token.work, store::text_of(row, 3));
    CO_TRY(token.hash, store::text_of(row, 4));
    CO_TRY(token.expires_ms, store::integer_of(row, 5));
  }
  co_return found;
}

Task<Result<void>> SessionTokens::end(std::string work) {
  CO_TRY(const auto tokens, co_await find("work_id = $1", std::move(work)));
  if (tokens.empty()) co_return {};
  store::Transaction all;
  for (const SessionToken& token : tokens) {
    door_.close(token.id);
    ++changes_;
    all.push_back({.sql = "DELETE FROM session_tokens WHERE id = $1", .values = {token.id}});
  }
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  ++changes_;
  door_.tell_others();
  co_return {};
}

Task<Result<void>> SessionTokens::keep_up() {
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "DELETE FROM session_tokens WHERE expires <= $1", .values = {now_ms()}}}));
  constexpr int kTriesMax = 3;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    const std::uint64_t before = changes_;
    CO_TRY(const auto good, co_await find("expires > $1", now_ms()));
    // Something was changed here meanwhile: what was read may be older than that.
    if (changes_ != before) continue;
    if (good.size() < static_cast<std::size_t>(kRowsMax)) {
      door_.replace(good);
    } else {
      for (const SessionToken& token : good) door_.open(token);
    }
    break;
  }
  co_return {};
}

}  // namespace pons::managed
