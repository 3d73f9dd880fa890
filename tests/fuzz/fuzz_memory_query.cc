#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "search_query.h"

using namespace pons;
using namespace pons::memory;

namespace {

sqlite3_stmt* prepare_search() {
  sqlite3* database = nullptr;
  CHECK(sqlite3_open(":memory:", &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database,
                     "CREATE VIRTUAL TABLE f USING fts5 (path, content, content = '', "
                     "tokenize = 'porter unicode61 remove_diacritics 2'); "
                     "INSERT INTO f (rowid, path, content) VALUES (1, '/a', 'some text or not')",
                     nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_stmt* search = nullptr;
  CHECK(sqlite3_prepare_v2(database, "SELECT rowid FROM f WHERE f MATCH ? ORDER BY rank", -1,
                           &search, nullptr) == SQLITE_OK);
  return search;
}

}  // namespace

// Whatever somebody asks: the database takes it for a question, and never for its own language.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static sqlite3_stmt* const search = prepare_search();
  const std::string input(reinterpret_cast<const char*>(data), size);
  const auto words = words_of(input);
  for (const Match match : {Match::kAllWords, Match::kAnyWord}) {
    if (words.empty()) break;
    const std::string text = write_match(store::Dialect::kSqlite, words, match);
    CHECK(is_valid_utf8(text) && text.find('\0') == std::string::npos);
    sqlite3_bind_text(search, 1, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
    int code = SQLITE_ROW;
    while (code == SQLITE_ROW) code = sqlite3_step(search);
    CHECK(code == SQLITE_DONE);
    sqlite3_reset(search);
    const std::string other = write_match(store::Dialect::kPostgres, words, match);
    CHECK(other.find_first_of("\"'&|!():*<>-") == std::string::npos);
  }
  const std::string snippet = snippet_of(input, {"some", "a"});
  CHECK(!is_valid_utf8(input) || is_valid_utf8(snippet));
  CHECK(snippet.find('\n') == std::string::npos && snippet.size() < 300);
  return 0;
}
