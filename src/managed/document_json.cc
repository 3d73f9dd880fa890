#include "document_json.h"

#include <nlohmann/json.hpp>

namespace pons::managed {

Result<Json> show_document(const Document& document, const char* type) {
  const Json said = TRY(parse_json(document.text));
  Json shown = {{"id", document.id}, {"type", type}};
  for (const auto& [key, value] : said.items()) shown[key] = value;
  shown["created_at"] = write_time(document.created_ms);
  shown["updated_at"] = write_time(document.updated_ms);
  shown["archived_at"] =
      document.archived_ms ? Json(write_time(*document.archived_ms)) : Json(nullptr);
  return shown;
}

Task<Reply<Json>> list_documents(Documents& documents, Call& call, Show show) {
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto filter, read_filter(query));
  CO_TRY(const auto wish, read_page(query, documents.kind(), {.usual = 20, .max = 100}));
  CO_TRY(const auto page, co_await documents.list(call.caller.project, filter, wish));
  Json list = Json::array();
  for (const Document& document : page.documents) {
    CO_TRY(auto shown, show(document));
    list.push_back(std::move(shown));
  }
  co_return Json{{"data", std::move(list)},
                 {"next_page", page.next_page ? Json(*page.next_page) : Json(nullptr)}};
}

Task<Reply<Json>> archive_document(Documents& documents, Call& call, Show show) {
  CO_TRY(const auto archived, co_await documents.archive(call.caller.project, call.ids[0]));
  co_return show(archived);
}

}  // namespace pons::managed
