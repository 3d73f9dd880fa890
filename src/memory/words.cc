#include "pons/memory/words.h"

#include "statements.h"

namespace pons::memory {

Task<Result<void>> make_words(store::Store& store) {
  constexpr std::int64_t kAtOnce = 50;
  for (std::string after;;) {
    CO_TRY(const auto rows,
           co_await store.read({.sql = "SELECT m.id, m.path, v.content FROM memories AS m "
                                       "JOIN memory_versions AS v ON v.id = m.version_id "
                                       "WHERE m.id > $1 ORDER BY m.id LIMIT $2",
                                .values = {after, kAtOnce}}));
    if (rows.empty()) co_return {};
    store::Transaction all;
    for (const store::Row& row : rows) {
      CO_TRY(after, store::text_of(row, 0));
      CO_TRY(const auto path, store::text_of(row, 1));
      // A note may be empty: its content is not stored then.
      const auto content = store::text_of(row, 2);
      add_words(store.dialect(), after, path, content ? *content : std::string(), all);
    }
    CO_TRY_VOID(co_await store.write(std::move(all)));
  }
}

}  // namespace pons::memory
