#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/memory/records.h"
#include "pons/store/store.h"

namespace pons::memory {

inline constexpr std::size_t kContentBytesMax = 102'400;
inline constexpr std::int64_t kBasicRowsMax = 100;
inline constexpr std::int64_t kFullRowsMax = 20;
inline constexpr std::int64_t kHitsMax = 50;
inline constexpr std::size_t kSearchedStoresMax = 32;

// Names of the credentials whose values a text holds; empty: none. Nothing is written without its
// answer. What stands for them in a session's sandboxes is looked for by the session.
using SecretCheck = std::function<Task<Result<std::vector<std::string>>>(std::string text)>;

struct MemoryLimits {
  std::int64_t stores = 1'000;       // of a project
  std::int64_t memories = 200'000;   // of a store
  std::int64_t bytes = 1LL << 30;    // of a store, all versions counted
  std::int64_t swept_at_once = 100;  // rows of a deleted store that one transaction removes
};

// The memory of agents: stores of notes with paths, and every version of each. A change, its
// version and its words in the index are one transaction that names what it has seen; of two that
// race, also in two processes, one is told of the other. Everything is asked for as a project's:
// what belongs to another is not found.
class MemoryStores {
 public:
  MemoryStores(store::Store& store, const Clock& clock, SecretCheck check,
               MemoryLimits limits = {});

  // ---- stores

  Task<Result<MemoryStore>> create_store(std::string project, NewStore wanted);
  Task<Result<MemoryStore>> find_store(Place place);
  Task<Result<MemoryStore>> update_store(Place place, StoreChange change);
  // For good: what is in it can be read, deleted and redacted.
  Task<Result<MemoryStore>> archive_store(Place place);
  // With all memories and versions. Nobody sees them from then on; they are removed in steps.
  Task<Result<void>> delete_store(Place place);
  // The newest first.
  Task<Result<Page<MemoryStore>>> list_stores(std::string project, StoreQuery query);
  // Removes what is left of deleted stores: for the start, and now and then.
  Task<Result<void>> sweep();

  // ---- memories

  Task<Result<Written>> create(Place place, NewMemory wanted, Author author);
  // A memory that already is as wanted is not changed, whatever was expected of it.
  Task<Result<Written>> update(Place place, std::string id, MemoryChange change, Author author);
  Task<Result<Removed>> remove(Place place, std::string id,
                               std::optional<std::string> expected_sha256, Author author);
  Task<Result<Memory>> find(Place place, std::string id, View view);
  Task<Result<Memory>> find_by_path(Place place, std::string path, View view);
  // By path; folders in place of what stands in them where only children are asked for.
  Task<Result<Page<MemoryEntry>>> list(Place place, MemoryQuery query);
  Task<Result<Memory>> mark(Place place, std::string id, Marks marks);
  // Somebody had use of it: it comes earlier in preloads. Not a change.
  Task<Result<void>> note_use(Place place, std::string id);

  // ---- versions

  // The newest first.
  Task<Result<Page<MemoryVersion>>> list_versions(Place place, VersionQuery query);
  Task<Result<MemoryVersion>> find_version(Place place, std::string id, View view);
  // What a change of that name has made; nothing while it has not been made.
  Task<Result<std::optional<MemoryVersion>>> find_change(Place place, std::string change);
  // Not of what a memory holds now: that is changed or deleted first.
  Task<Result<MemoryVersion>> redact_version(Place place, std::string id, Actor actor);

  // ---- finding

  // Those with all words first, then those with some. Any text is a query.
  Task<Result<std::vector<Hit>>> search(std::string project, std::vector<std::string> stores,
                                        std::string query, std::int64_t limit);
  // Pinned notes, then those that were written or used last and most; none that is untrusted.
  // `budget` is for paths and contents together.
  Task<Result<Preload>> preload(std::string project, std::vector<std::string> stores,
                                std::size_t budget_bytes);

 private:
  struct Seen;
  Task<Result<std::vector<store::Row>>> read(std::string sql, std::vector<store::Value> values);
  Task<Result<void>> refuse_secrets(std::string text);
  Task<Result<void>> expect_room(Place place, std::int64_t memories, std::int64_t bytes);
  Task<Result<std::optional<PathConflict>>> find_conflict(Place place, std::string path,
                                                          std::string except);
  Task<Result<Seen>> look(Place place, std::string id);
  Task<Result<void>> sweep_store(std::string id);
  Task<Result<void>> sweep_rows(std::string id);
  Task<Result<std::vector<Hit>>> search_once(std::vector<MemoryStore> stores, std::string match,
                                             std::vector<std::string> words, std::int64_t limit);
  std::int64_t now_ms() const;

  store::Store& store_;
  const Clock& clock_;
  SecretCheck check_;
  MemoryLimits limits_;
};

}  // namespace pons::memory
