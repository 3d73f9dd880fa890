#include <algorithm>

#include <fmt/format.h>

#include "pons/memory/memory_stores.h"
#include "rows.h"
#include "statements.h"

namespace pons::memory {

namespace {

constexpr std::int64_t kCandidatesOfStore = 500;

struct Candidate {
  Memory memory;
  std::int64_t weight = 0;
};

bool comes_before(const Candidate& a, const Candidate& b) {
  if (a.memory.pinned != b.memory.pinned) return a.memory.pinned;
  return a.weight != b.weight ? a.weight > b.weight : a.memory.path < b.memory.path;
}

}  // namespace

Task<Result<Preload>> MemoryStores::preload(std::string project, std::vector<std::string> stores,
                                            std::size_t budget_bytes) {
  if (stores.size() > kSearchedStoresMax)
    co_return make_error(ErrorCode::kInvalid, "preload memories",
                         fmt::format("at most {} stores at once", kSearchedStoresMax));
  std::vector<Candidate> candidates;
  for (const std::string& store : stores) {
    CO_TRY(const auto rows,
           co_await read(fmt::format("SELECT {}, NULL, m.weight FROM memories AS m "
                                     "JOIN memory_stores AS s ON s.id = m.store_id "
                                     "AND s.deleted IS NULL WHERE m.project_id = $1 "
                                     "AND m.store_id = $2 AND m.provenance <> 'untrusted' "
                                     "ORDER BY m.pinned DESC, m.weight DESC LIMIT $3",
                                     kMemoryColumns),
                         {project, store, kCandidatesOfStore}));
    for (const store::Row& row : rows) {
      CO_TRY(auto memory, memory_of(row));
      CO_TRY(const std::int64_t weight, store::integer_of(row, kMemoryColumnCount + 1));
      candidates.push_back({.memory = std::move(memory), .weight = weight});
    }
  }
  std::ranges::sort(candidates, comes_before);
  Preload chosen;
  std::size_t left = budget_bytes;
  for (Candidate& candidate : candidates) {
    Memory& memory = candidate.memory;
    const std::size_t bytes = memory.path.size() + static_cast<std::size_t>(memory.size_bytes);
    if (bytes > left) {
      ++chosen.left_out;
      continue;
    }
    // By its version: what the size was read of.
    CO_TRY(const auto rows, co_await read("SELECT content FROM memory_versions WHERE id = $1 "
                                          "AND content IS NOT NULL",
                                          {memory.version}));
    if (rows.empty()) continue;
    CO_TRY(memory.content, store::text_of(rows.front(), 0));
    left -= bytes;
    chosen.notes.push_back(std::move(memory));
  }
  co_return chosen;
}

}  // namespace pons::memory
