#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "caller_project.h"
#include "pons/base/json_place.h"
#include "pons/http/error_status.h"
#include "pons/memory/memory_stores.h"
#include "routes.h"

// What memory stores can do that no shape of others has a place for.

namespace pons::brain {

namespace {

using memory::Memory;
using memory::MemoryStores;
using memory::Place;
using memory::Provenance;

constexpr std::size_t kBodyBytesMax = 64 << 10;
constexpr std::size_t kQueryBytesMax = 4'096;

struct Request {
  http::Exchange& exchange;
  std::string project;
  std::vector<std::string> names;

  Place place() const { return {.project = project, .store = names.at(0)}; }
};

Task<Result<Json>> read_object(http::Exchange& exchange) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kBodyBytesMax));
  auto json = parse_json(body.empty() ? "{}" : body);
  if (!json || !json->is_object())
    co_return make_error(ErrorCode::kInvalid, "read request", "the body is no JSON object");
  co_return json;
}

Json to_json(const Memory& memory) {
  Json json = {{"id", memory.id},
               {"memory_store_id", memory.store},
               {"path", memory.path},
               {"memory_version_id", memory.version},
               {"content_sha256", memory.sha256},
               {"content_size_bytes", memory.size_bytes},
               {"provenance", name_of(memory.provenance)},
               {"pinned", memory.pinned},
               {"uses", memory.uses},
               {"updated_unix_ms", memory.updated_ms}};
  if (memory.content) json["content"] = *memory.content;
  return json;
}

// Those that are named, or all that the project has.
Task<Result<std::vector<std::string>>> stores_to_search(MemoryStores& stores,
                                                        const std::string& project,
                                                        const JsonPlace& place) {
  std::vector<std::string> ids;
  if (place.has("stores")) {
    const JsonPlace list = place.at("stores");
    CO_TRY_VOID(list.expect_list(memory::kSearchedStoresMax));
    for (std::size_t i = 0; i < list.value.size(); ++i) {
      CO_TRY(auto id, list.at(i).text());
      CO_TRY_VOID(co_await stores.find_store({.project = project, .store = id}));
      ids.push_back(std::move(id));
    }
    co_return ids;
  }
  CO_TRY(const auto page,
         co_await stores.list_stores(
             project, {.with_archived = true,
                       .limit = static_cast<std::int64_t>(memory::kSearchedStoresMax)}));
  if (!page.next.empty())
    co_return place.refuse(
        fmt::format("say which stores: the project has more than {}", memory::kSearchedStoresMax));
  for (const memory::MemoryStore& store : page.entries) ids.push_back(store.id);
  co_return ids;
}

Task<Result<Json>> search(MemoryStores& stores, Request request) {
  CO_TRY(const auto body, co_await read_object(request.exchange));
  const JsonPlace place{.value = body, .pointer = {}};
  CO_TRY_VOID(place.expect_object({"query", "stores", "limit"}));
  if (!place.has("query")) co_return place.refuse("\"query\" is missing");
  CO_TRY(auto query, place.at("query").text());
  if (query.size() > kQueryBytesMax) co_return place.at("query").refuse("is too long");
  std::uint64_t limit = 10;
  if (place.has("limit")) {
    CO_TRY(limit, place.at("limit").number(1, memory::kHitsMax));
  }
  CO_TRY(auto ids, co_await stores_to_search(stores, request.project, place));
  CO_TRY(const auto hits, co_await stores.search(request.project, std::move(ids), std::move(query),
                                                 static_cast<std::int64_t>(limit)));
  Json found = Json::array();
  for (const memory::Hit& hit : hits) {
    found.push_back(to_json(hit.memory));
    found.back()["snippet"] = hit.snippet;
  }
  co_return Json{{"hits", std::move(found)}};
}

Task<Result<Json>> show(MemoryStores& stores, Request request) {
  CO_TRY(const auto found,
         co_await stores.find(request.place(), request.names.at(1), memory::View::kFull));
  co_return to_json(found);
}

Result<memory::Marks> read_marks(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"pinned", "provenance"}));
  memory::Marks marks;
  if (place.has("pinned")) marks.pinned = TRY(place.at("pinned").flag());
  if (!place.has("provenance")) return marks;
  const std::string word = TRY(place.at("provenance").text());
  for (const Provenance each : {Provenance::kHuman, Provenance::kAgent, Provenance::kUntrusted})
    if (word == name_of(each)) marks.provenance = each;
  if (!marks.provenance) return place.at("provenance").refuse("must be human, agent or untrusted");
  return marks;
}

Task<Result<Json>> mark(MemoryStores& stores, Request request) {
  CO_TRY(const auto body, co_await read_object(request.exchange));
  CO_TRY(const auto marks, read_marks(body));
  CO_TRY(const auto marked, co_await stores.mark(request.place(), request.names.at(1), marks));
  co_return to_json(marked);
}

using Work = Task<Result<Json>> (*)(MemoryStores&, Request);

Task<> answer(Work work, MemoryStores& stores, http::Exchange& exchange,
              std::vector<std::string> names) {
  auto project = project_of(exchange);
  if (!project) {
    exchange.respond(http::error_response(project.error()));
    co_return;
  }
  const auto done = co_await work(
      stores, {.exchange = exchange, .project = std::move(*project), .names = std::move(names)});
  if (done)
    exchange.respond({.body = dump_json(*done) + "\n"});
  else
    exchange.respond(http::error_response(done.error()));
}

}  // namespace

std::vector<http::Route> memory_routes(MemoryStores& stores) {
  const auto with = [&stores](Work work) {
    return [&stores, work](http::Exchange& exchange, const http::PathValues& names) {
      return answer(work, stores, exchange, {names.begin(), names.end()});
    };
  };
  return {{"POST", "/memory/search", with(search)},
          {"GET", "/memory/stores/{id}/notes/{note}", with(show)},
          {"POST", "/memory/stores/{id}/notes/{note}/marks", with(mark)}};
}

}  // namespace pons::brain
