#include "pons/managed/documents.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/id.h"

namespace pons::managed {

namespace {

using store::Statement;
using store::Value;

constexpr const char* kColumns = "id, project_id, version, document, created, updated, archived";

Result<Document> document_of(const store::Row& row) {
  return Document{.id = TRY(store::text_of(row, 0)),
                  .project = TRY(store::text_of(row, 1)),
                  .version = TRY(store::integer_of(row, 2)),
                  .text = TRY(store::text_of(row, 3)),
                  .created_ms = TRY(store::integer_of(row, 4)),
                  .updated_ms = TRY(store::integer_of(row, 5)),
                  .archived_ms = TRY(store::optional_integer_of(row, 6))};
}

void append(store::Transaction& transaction, Documents::Also also, const Document& document) {
  if (also == nullptr) return;
  for (Statement& statement : also(document)) transaction.push_back(std::move(statement));
}

}  // namespace

Result<DocumentFilter> read_filter(const Query& query) {
  return DocumentFilter{.with_archived = TRY(query.flag("include_archived")),
                        .created_from_ms = TRY(query.time("created_at[gte]")),
                        .created_to_ms = TRY(query.time("created_at[lte]"))};
}

std::int64_t Documents::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

Task<Reply<Document>> Documents::create(std::string project, std::string text, Also also) {
  constexpr std::size_t kIdLength = 26;
  Document document{.id = fmt::format("{}_{}", prefix_, random_text(kIdLength)),
                    .project = std::move(project),
                    .text = std::move(text),
                    .created_ms = now_ms()};
  document.updated_ms = document.created_ms;
  store::Transaction transaction = {
      {.sql = fmt::format("INSERT INTO {} (id, project_id, version, document, created, updated) "
                          "VALUES ($1, $2, $3, $4, $5, $5)",
                          table_),
       .values = {document.id, document.project, document.version, document.text,
                  document.created_ms}}};
  append(transaction, also, document);
  CO_TRY_VOID(co_await store_.write(std::move(transaction)));
  co_return document;
}

Task<Reply<Document>> Documents::find(std::string project, std::string id) {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = fmt::format("SELECT {} FROM {} WHERE id = $1 AND "
                                                  "project_id = $2",
                                                  kColumns, table_),
                               .values = {std::move(id), std::move(project)}}));
  if (rows.empty()) co_return no_such(kind_);
  CO_TRY(auto document, document_of(rows.front()));
  co_return document;
}

Task<Reply<Document>> Documents::replace(const Document& before, std::string text, Also also) {
  Document after = before;
  after.version += 1;
  after.text = std::move(text);
  after.updated_ms = std::max(now_ms(), before.updated_ms);
  store::Transaction transaction = {
      {.sql = fmt::format("UPDATE {} SET version = $1, document = $2, updated = $3 "
                          "WHERE id = $4 AND version = $5 AND archived IS NULL",
                          table_),
       .values = {after.version, after.text, after.updated_ms, after.id, before.version},
       .must_change = 1}};
  append(transaction, also, after);
  const auto written = co_await store_.write(std::move(transaction));
  if (!written && written.error().code == ErrorCode::kConflict)
    co_return conflict(fmt::format("the {} was changed meanwhile; read it again", kind_));
  if (!written) co_return written.error();
  co_return after;
}

Task<Reply<Document>> Documents::archive(std::string project, std::string id) {
  CO_TRY_VOID(co_await store_.write(
      {{.sql = fmt::format("UPDATE {} SET archived = $1, updated = $1 WHERE id = $2 AND "
                           "project_id = $3 AND archived IS NULL",
                           table_),
        .values = {now_ms(), id, project}}}));
  co_return co_await find(std::move(project), std::move(id));
}

Task<Reply<void>> Documents::remove(std::string project, std::string id) {
  const auto removed = co_await store_.write(
      {{.sql = fmt::format("DELETE FROM {} WHERE id = $1 AND project_id = $2", table_),
        .values = {std::move(id), std::move(project)},
        .must_change = 1}});
  if (!removed && removed.error().code == ErrorCode::kConflict) co_return no_such(kind_);
  if (!removed) co_return removed.error();
  co_return {};
}

Task<Reply<DocumentPage>> Documents::list(std::string project, const DocumentFilter& filter,
                                          const PageWish& wish) {
  Statement statement{
      .sql = fmt::format("SELECT {} FROM {} WHERE project_id = $1", kColumns, table_),
      .values = {std::move(project)}};
  const auto place = [&](Value value) {
    statement.values.push_back(std::move(value));
    return fmt::format("${}", statement.values.size());
  };
  if (!filter.with_archived) statement.sql += " AND archived IS NULL";
  if (filter.created_from_ms) statement.sql += " AND created >= " + place(*filter.created_from_ms);
  if (filter.created_to_ms) statement.sql += " AND created <= " + place(*filter.created_to_ms);
  if (!wish.after.empty()) {
    CO_TRY(const auto created, number_in(wish, 0));
    const std::string at = place(created);
    statement.sql += fmt::format(" AND (created < {0} OR (created = {0} AND id < {1}))", at,
                                 place(wish.after.size() > 1 ? wish.after[1] : std::string()));
  }
  statement.sql += " ORDER BY created DESC, id DESC LIMIT " + place(wish.limit + 1);
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  DocumentPage page;
  for (const store::Row& row : rows) {
    if (static_cast<std::int64_t>(page.documents.size()) == wish.limit) {
      const Document& last = page.documents.back();
      page.next_page = write_cursor(kind_, {fmt::format("{}", last.created_ms), last.id});
      break;
    }
    CO_TRY(auto document, document_of(row));
    page.documents.push_back(std::move(document));
  }
  co_return page;
}

}  // namespace pons::managed
