#include <algorithm>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/memory/memory_stores.h"
#include "pons/memory/path.h"
#include "rows.h"
#include "statements.h"

// A change looks, decides, and writes on condition that nothing is other than it looked. When the
// write is refused it looks again: either there is a reason to tell by now, or another chance.

namespace pons::memory {

namespace {

constexpr int kAttempts = 8;

struct MemoryTag {
  static constexpr std::string_view kPrefix = "mem";
};
struct VersionTag {
  static constexpr std::string_view kPrefix = "memver";
};

Result<void> check_content(std::string_view content) {
  const auto refuse = [](std::string message) {
    return make_error(ErrorCode::kInvalid, "check memory", std::move(message));
  };
  if (content.size() > kContentBytesMax)
    return refuse(fmt::format("the content is longer than {} bytes; split it", kContentBytesMax));
  if (!is_valid_utf8(content) || content.find('\0') != std::string_view::npos)
    return refuse("the content is no UTF-8 text, or holds a NUL");
  return {};
}

Result<void> check_digest(const std::optional<std::string>& digest) {
  constexpr std::size_t kDigits = 64;
  if (!digest || (digest->size() == kDigits &&
                  digest->find_first_not_of("0123456789abcdef") == std::string::npos))
    return {};
  return make_error(ErrorCode::kInvalid, "check memory",
                    "a content_sha256 is 64 lower-case hexadecimal digits");
}

Error too_busy() {
  return make_error(ErrorCode::kConflict, "change memory",
                    "too many change it at the same time; try again");
}

// An agent cannot make its own what came from outside; a person who writes the text anew can.
// Whoever moves a note does not vouch for what is in it.
Provenance provenance_after(Provenance before, Provenance author, bool is_rewritten) {
  if (is_rewritten && author == Provenance::kHuman) return Provenance::kHuman;
  if (is_rewritten && before != Provenance::kUntrusted) return author;
  return std::max(before, author);
}

std::string version_id_for(const Author& author) {
  return author.change.empty() ? Id<VersionTag>::generate().text()
                               : version_of_change(author.change);
}

// The memory as that change left it, whatever became of it since.
Memory memory_after(const MemoryVersion& version) {
  return {.id = version.memory,
          .store = version.store,
          .path = version.path.value_or(""),
          .version = version.id,
          .sha256 = version.sha256.value_or(""),
          .size_bytes = version.size_bytes.value_or(0),
          .created_ms = version.created_ms,
          .updated_ms = version.created_ms,
          .provenance = version.provenance};
}

std::int64_t size_of(const std::string& content) {
  return static_cast<std::int64_t>(content.size());
}

}  // namespace

// ---- looking

struct MemoryStores::Seen {
  Memory memory;
  std::string content;
};

Task<Result<MemoryStores::Seen>> MemoryStores::look(Place place, std::string id) {
  CO_TRY(Memory memory, co_await find(std::move(place), std::move(id), View::kFull));
  if (!memory.content)
    co_return make_error(ErrorCode::kIo, "read memory", "its content is missing");
  std::string content = *std::move(memory.content);
  memory.content.reset();
  co_return Seen{.memory = std::move(memory), .content = std::move(content)};
}

Task<Result<void>> MemoryStores::expect_room(Place place, std::int64_t memories,
                                             std::int64_t bytes) {
  CO_TRY(const MemoryStore store, co_await find_store(std::move(place)));
  if (store.archived_ms)
    co_return make_error(
        ErrorCode::kInvalid, "change memory",
        "the memory store is archived; what is in it can be read and deleted only");
  if (store.memories + memories > limits_.memories || store.bytes + bytes > limits_.bytes)
    co_return make_error(
        ErrorCode::kLimit, "change memory",
        fmt::format("the memory store is full: it holds at most {} memories, and {} in all "
                    "versions together; delete or redact some, or use another store",
                    limits_.memories, human_bytes(static_cast<std::uint64_t>(limits_.bytes))));
  co_return {};
}

Task<Result<std::optional<PathConflict>>> MemoryStores::find_conflict(Place place, std::string path,
                                                                      std::string except) {
  Values values = {place.store, std::move(except)};
  const Conflicts conflicts = find_conflicts(values, "$1", "$2", path);
  const auto one_of = [](const std::string& which) {
    return fmt::format("SELECT o.id, o.path {} ORDER BY o.path LIMIT 1", which);
  };
  CO_TRY(const auto rows,
         co_await read(fmt::format("SELECT * FROM ({}) AS a UNION ALL SELECT * FROM ({}) AS b",
                                   one_of(conflicts.above), one_of(conflicts.below)),
                       std::move(values)));
  if (rows.empty()) co_return std::nullopt;
  PathConflict conflict;
  CO_TRY(conflict.memory, store::text_of(rows.front(), 0));
  CO_TRY(conflict.path, store::text_of(rows.front(), 1));
  co_return conflict;
}

// ---- changing

namespace {

store::Statement insert_memory(const Place& place, const NewVersion& version) {
  Values values = {place.store,
                   place.project,
                   version.memory,
                   version.path,
                   version.id,
                   sha256_hex(*version.content),
                   size_of(*version.content),
                   std::string(name_of(version.provenance)),
                   version.created_ms};
  const std::string is_free = no_conflicts(find_conflicts(values, "$1", "$3", version.path));
  return {.sql = fmt::format(
              "INSERT INTO memories (id, project_id, store_id, number, path, version_id, sha256, "
              "size, provenance, pinned, uses, used, weight, created, updated) "
              "SELECT $3, s.project_id, s.id, s.revision, $4, $5, $6, CAST($7 AS BIGINT), $8, 0, "
              "0, 0, CAST($9 AS BIGINT), CAST($9 AS BIGINT), CAST($9 AS BIGINT) "
              "FROM memory_stores AS s WHERE s.id = $1 AND s.project_id = $2 AND {}",
              is_free),
          .values = std::move(values),
          .must_change = 1};
}

store::Statement update_memory(const Place& place, const std::string& seen_version,
                               const NewVersion& version) {
  Values values = {place.store,
                   version.memory,
                   seen_version,
                   version.path,
                   version.id,
                   sha256_hex(*version.content),
                   size_of(*version.content),
                   std::string(name_of(version.provenance)),
                   version.created_ms};
  const std::string is_free = no_conflicts(find_conflicts(values, "$1", "$2", version.path));
  return {.sql = fmt::format("UPDATE memories SET path = $4, version_id = $5, sha256 = $6, "
                             "size = $7, provenance = $8, updated = $9, weight = {} "
                             "WHERE id = $2 AND store_id = $1 AND version_id = $3 AND {}",
                             weight_sql("CAST($9 AS BIGINT)", "uses"), is_free),
          .values = std::move(values),
          .must_change = 1};
}

}  // namespace

Task<Result<Written>> MemoryStores::create(Place place, NewMemory wanted, Author author) {
  CO_TRY_VOID(check_path(wanted.path));
  CO_TRY_VOID(check_content(wanted.content));
  CO_TRY(const auto done, co_await find_change(place, author.change));
  if (done) co_return Written(memory_after(*done));
  CO_TRY_VOID(co_await expect_room(place, 1, size_of(wanted.content)));
  CO_TRY_VOID(co_await refuse_secrets(wanted.path + "\n" + wanted.content));
  const NewVersion version{.id = version_id_for(author),
                           .memory = Id<MemoryTag>::generate().text(),
                           .operation = Operation::kCreated,
                           .path = wanted.path,
                           .content = &wanted.content,
                           .provenance = author.provenance,
                           .actor = author.actor,
                           .created_ms = now_ms()};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    CO_TRY(auto conflict, co_await find_conflict(place, wanted.path, ""));
    if (conflict) co_return Written(*std::move(conflict));
    store::Transaction all;
    all.push_back(count_growth(place, {.memories = 1, .bytes = size_of(wanted.content)}, limits_));
    all.push_back(insert_memory(place, version));
    all.push_back(insert_version(place, version));
    add_words(store_.dialect(), version.memory, wanted.path, wanted.content, all);
    const auto written = co_await store_.write(std::move(all));
    if (written) {
      CO_TRY(auto memory, co_await find(place, version.memory, View::kFull));
      co_return Written(std::move(memory));
    }
    if (written.error().code != ErrorCode::kConflict) co_return written.error();
    CO_TRY_VOID(co_await expect_room(place, 1, size_of(wanted.content)));
  }
  co_return too_busy();
}

Task<Result<Written>> MemoryStores::update(Place place, std::string id, MemoryChange change,
                                           Author author) {
  if (change.path) CO_TRY_VOID(check_path(*change.path));
  if (change.content) CO_TRY_VOID(check_content(*change.content));
  CO_TRY_VOID(check_digest(change.expected_sha256));
  bool is_checked = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    CO_TRY(const auto done, co_await find_change(place, author.change));
    if (done) co_return Written(memory_after(*done));
    CO_TRY(Seen seen, co_await look(place, id));
    const std::string path = change.path.value_or(seen.memory.path);
    const std::string content = change.content.value_or(seen.content);
    const bool is_rewritten = content != seen.content;
    CO_TRY_VOID(co_await expect_room(place, 0, 0));
    if (!is_rewritten && path == seen.memory.path) {
      seen.memory.content = std::move(seen.content);
      co_return Written(std::move(seen.memory));
    }
    if (change.expected_sha256 && *change.expected_sha256 != seen.memory.sha256)
      co_return Written(PreconditionFailed{.sha256 = seen.memory.sha256});
    CO_TRY(auto conflict, co_await find_conflict(place, path, id));
    if (conflict) co_return Written(*std::move(conflict));
    CO_TRY_VOID(co_await expect_room(place, 0, size_of(content)));
    if (!is_checked) CO_TRY_VOID(co_await refuse_secrets(path + "\n" + content));
    is_checked = true;
    const NewVersion version{
        .id = version_id_for(author),
        .memory = id,
        .operation = Operation::kModified,
        .path = path,
        .content = &content,
        .provenance = provenance_after(seen.memory.provenance, author.provenance, is_rewritten),
        .actor = author.actor,
        .created_ms = now_ms()};
    store::Transaction all;
    all.push_back(count_growth(place, {.memories = 0, .bytes = size_of(content)}, limits_));
    remove_words(store_.dialect(), id, all);
    all.push_back(update_memory(place, seen.memory.version, version));
    all.push_back(insert_version(place, version));
    add_words(store_.dialect(), id, path, content, all);
    const auto written = co_await store_.write(std::move(all));
    if (written) {
      CO_TRY(auto memory, co_await find(place, id, View::kFull));
      co_return Written(std::move(memory));
    }
    if (written.error().code != ErrorCode::kConflict) co_return written.error();
  }
  co_return too_busy();
}

Task<Result<Removed>> MemoryStores::remove(Place place, std::string id,
                                           std::optional<std::string> expected_sha256,
                                           Author author) {
  CO_TRY_VOID(check_digest(expected_sha256));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    CO_TRY(const auto done, co_await find_change(place, author.change));
    if (done) co_return Removed(Deleted{.id = id});
    CO_TRY(const Memory seen, co_await find(place, id, View::kBasic));
    if (expected_sha256 && *expected_sha256 != seen.sha256)
      co_return Removed(PreconditionFailed{.sha256 = seen.sha256});
    store::Transaction all;
    all.push_back(count_loss(place, {.memories = 1, .bytes = 0}));
    remove_words(store_.dialect(), id, all);
    all.push_back(
        {.sql = "DELETE FROM memories WHERE id = $1 AND store_id = $2 AND version_id = $3",
         .values = {id, place.store, seen.version},
         .must_change = 1});
    all.push_back(insert_version(place, {.id = version_id_for(author),
                                         .memory = id,
                                         .operation = Operation::kDeleted,
                                         .path = seen.path,
                                         .content = nullptr,
                                         .provenance = author.provenance,
                                         .actor = author.actor,
                                         .created_ms = now_ms()}));
    const auto written = co_await store_.write(std::move(all));
    if (written) co_return Removed(Deleted{.id = id});
    if (written.error().code != ErrorCode::kConflict) co_return written.error();
  }
  co_return too_busy();
}

}  // namespace pons::memory
