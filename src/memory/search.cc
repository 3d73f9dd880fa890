#include <algorithm>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/memory/memory_stores.h"
#include "rows.h"
#include "search_query.h"
#include "statements.h"

namespace pons::memory {

namespace {

constexpr std::size_t kQueryBytesMax = 4096;

// The best of each store, then the best of those: a store's rows stand together in the index, and
// only they are looked at.
std::string sqlite_search(const std::vector<MemoryStore>& stores, const std::string& match,
                          std::int64_t limit, Values& values) {
  const std::string question = parameter(values, match);
  const std::string most = parameter(values, limit);
  std::string parts;
  for (const MemoryStore& store : stores) {
    const std::string id = parameter(values, store.id);
    const std::string first = parameter(values, store.number * kRowsOfStore);
    const std::string last = parameter(values, (store.number + 1) * kRowsOfStore - 1);
    parts += fmt::format(
        "{}SELECT * FROM (SELECT {} AS store_id, rowid - {} AS number, rank AS score "
        "FROM memory_search WHERE memory_search MATCH {} AND rowid BETWEEN {} AND {} "
        "ORDER BY rank LIMIT {})",
        parts.empty() ? "" : " UNION ALL ", id, first, question, first, last, most);
  }
  return fmt::format(
      "SELECT {}, v.content FROM ({}) AS f "
      "JOIN memories AS m ON m.store_id = f.store_id AND m.number = f.number "
      "JOIN memory_versions AS v ON v.id = m.version_id ORDER BY f.score, m.id LIMIT {}",
      kMemoryColumns, parts, most);
}

std::string postgres_search(const std::vector<MemoryStore>& stores, const std::string& match,
                            std::int64_t limit, Values& values) {
  const std::string question = parameter(values, match);
  const std::string most = parameter(values, limit);
  std::vector<std::string> ids;
  for (const MemoryStore& store : stores) ids.push_back(store.id);
  return fmt::format(
      "SELECT {}, v.content FROM memories AS m "
      "JOIN memory_versions AS v ON v.id = m.version_id "
      "CROSS JOIN websearch_to_tsquery('english', {}) AS q "
      "WHERE m.store_id IN ({}) AND m.search @@ q ORDER BY ts_rank_cd(m.search, q) DESC, m.id "
      "LIMIT {}",
      kMemoryColumns, question, parameters(values, ids), most);
}

Result<void> check(const std::vector<std::string>& stores, std::string_view query,
                   std::int64_t limit) {
  const auto refuse = [](std::string message) {
    return make_error(ErrorCode::kInvalid, "search memories", std::move(message));
  };
  if (limit < 1 || limit > kHitsMax) return refuse(fmt::format("limit must be 1 to {}", kHitsMax));
  if (stores.size() > kSearchedStoresMax)
    return refuse(fmt::format("at most {} stores are searched at once", kSearchedStoresMax));
  if (query.size() > kQueryBytesMax)
    return refuse(fmt::format("the query is longer than {} bytes", kQueryBytesMax));
  return {};
}

}  // namespace

Task<Result<std::vector<Hit>>> MemoryStores::search_once(std::vector<MemoryStore> stores,
                                                         std::string match,
                                                         std::vector<std::string> words,
                                                         std::int64_t limit) {
  Values values;
  std::string sql = store_.dialect() == store::Dialect::kSqlite
                        ? sqlite_search(stores, match, limit, values)
                        : postgres_search(stores, match, limit, values);
  CO_TRY(const auto rows, co_await read(std::move(sql), std::move(values)));
  std::vector<Hit> hits;
  for (const store::Row& row : rows) {
    CO_TRY(Memory memory, memory_of(row));
    std::string snippet = snippet_of(memory.content.value_or(""), words);
    memory.content.reset();
    hits.push_back({.memory = std::move(memory), .snippet = std::move(snippet)});
  }
  co_return hits;
}

Task<Result<std::vector<Hit>>> MemoryStores::search(std::string project,
                                                    std::vector<std::string> stores,
                                                    std::string query, std::int64_t limit) {
  CO_TRY_VOID(check(stores, query, limit));
  std::vector<MemoryStore> searched;
  for (std::string& id : stores) {
    if (std::ranges::find(searched, id, &MemoryStore::id) != searched.end()) continue;
    CO_TRY(auto store, co_await find_store({.project = project, .store = std::move(id)}));
    searched.push_back(std::move(store));
  }
  const std::vector<std::string> words = words_of(query);
  if (words.empty() || searched.empty()) co_return std::vector<Hit>();
  CO_TRY(auto hits,
         co_await search_once(searched, write_match(store_.dialect(), words, Match::kAllWords),
                              words, limit));
  if (words.size() == 1 || static_cast<std::int64_t>(hits.size()) == limit) co_return hits;
  CO_TRY(auto others,
         co_await search_once(searched, write_match(store_.dialect(), words, Match::kAnyWord),
                              words, limit));
  for (Hit& other : others) {
    if (static_cast<std::int64_t>(hits.size()) == limit) break;
    const auto same = [&](const Hit& hit) { return hit.memory.id == other.memory.id; };
    if (std::ranges::none_of(hits, same)) hits.push_back(std::move(other));
  }
  co_return hits;
}

}  // namespace pons::memory
