#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pons/base/clock.h"
#include "pons/managed/query.h"
#include "pons/managed/reply.h"
#include "pons/store/store.h"

namespace pons::managed {

// One object of the API in the store.
struct Document {
  std::string id;
  std::string project;
  std::int64_t version = 1;
  std::string text;  // JSON
  std::int64_t created_ms = 0;
  std::int64_t updated_ms = 0;
  std::optional<std::int64_t> archived_ms = std::nullopt;
};

struct DocumentPage {
  std::vector<Document> documents;  // newest first
  std::optional<std::string> next_page;
};

struct DocumentFilter {
  bool with_archived = false;
  std::optional<std::int64_t> created_from_ms = std::nullopt;
  std::optional<std::int64_t> created_to_ms = std::nullopt;
};
// created_at[gte], created_at[lte], include_archived
Result<DocumentFilter> read_filter(const Query& query);

// A table whose rows are documents of one kind. Those of other projects are not there.
class Documents {
 public:
  // `table` and `kind` ("agent") are static text; `prefix` begins ids.
  Documents(store::Store& store, const Clock& clock, const char* table, const char* kind,
            const char* prefix)
      : store_(store), clock_(clock), table_(table), kind_(kind), prefix_(prefix) {}

  // Further statements become part of the same transaction; they may use the id and the time.
  using Also = std::vector<store::Statement> (*)(const Document&);
  Task<Reply<Document>> create(std::string project, std::string text, Also also = nullptr);
  Task<Reply<Document>> find(std::string project, std::string id);
  // Takes the place of `before`; 409 when somebody was faster.
  Task<Reply<Document>> replace(const Document& before, std::string text, Also also = nullptr);
  // Once and for all; a second time changes nothing.
  Task<Reply<Document>> archive(std::string project, std::string id);
  Task<Reply<void>> remove(std::string project, std::string id);
  Task<Reply<DocumentPage>> list(std::string project, const DocumentFilter& filter,
                                 const PageWish& wish);

  const char* kind() const { return kind_; }
  store::Store& store() { return store_; }

 private:
  std::int64_t now_ms() const;

  store::Store& store_;
  const Clock& clock_;
  const char* table_;
  const char* kind_;
  const char* prefix_;
};

}  // namespace pons::managed
