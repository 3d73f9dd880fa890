#include "pons/managed/memory_routes.h"

#include <nlohmann/json.hpp>

#include "memory_shape.h"
#include "pons/managed/caller.h"

namespace pons::managed {

namespace {

using memory::MemoryStores;
using memory::View;

memory::Place place_of(const Call& call) {
  return {.project = call.caller.project, .store = call.ids[0]};
}

// Whoever writes by the API answers for it. What a worker's tools have read, nobody here knows.
memory::Author author_of(const Call& call) {
  if (!call.caller.session.empty())
    return {.actor = {.kind = memory::Actor::Kind::kSession, .id = call.caller.session},
            .provenance = memory::Provenance::kUntrusted};
  return {.actor = {.kind = memory::Actor::Kind::kApiKey, .id = call.caller.key},
          .provenance = memory::Provenance::kHuman};
}

Result<Query> query_of(const Call& call) {
  return Query::parse(call.exchange.request().query());
}

// A full store stays full however often it is asked; the SDKs would ask again after a 429.
Refusal refusal_of(const Error& error) {
  return error.code == ErrorCode::kLimit ? bad_request(error.message) : Refusal(error);
}

Refusal refusal_of(const memory::PreconditionFailed&) {
  return {409, "memory_precondition_failed_error",
          "the memory's content is not what the precondition expects"};
}

Refusal refusal_of(const memory::PathConflict& conflict) {
  Refusal refusal{409, "memory_path_conflict_error",
                  "another memory stands at this path, above it or below it"};
  refusal.more = {{"conflicting_memory_id", conflict.memory}, {"conflicting_path", conflict.path}};
  return refusal;
}

template <class T, class Show>
Json show_page(const memory::Page<T>& page, Show show) {
  Json data = Json::array();
  for (const T& entry : page.entries) data.push_back(show(entry));
  return {{"data", std::move(data)},
          {"next_page", page.next.empty() ? Json(nullptr) : Json(page.next)}};
}

// ---- stores

Task<Reply<Json>> create_store(MemoryStores& memories, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  CO_TRY(auto wanted, read_new_store(body));
  const auto made = co_await memories.create_store(call.caller.project, std::move(wanted));
  if (!made) co_return refusal_of(made.error());
  co_return show_store(*made);
}

Task<Reply<Json>> list_stores(MemoryStores& memories, Call& call) {
  CO_TRY(const Query query, query_of(call));
  CO_TRY(auto wanted, read_store_query(query));
  CO_TRY(const auto page, co_await memories.list_stores(call.caller.project, std::move(wanted)));
  co_return show_page(page, show_store);
}

Task<Reply<Json>> get_store(MemoryStores& memories, Call& call) {
  CO_TRY(const auto store, co_await memories.find_store(place_of(call)));
  co_return show_store(store);
}

Task<Reply<Json>> update_store(MemoryStores& memories, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  CO_TRY(auto change, read_store_change(body));
  CO_TRY(const auto store, co_await memories.update_store(place_of(call), std::move(change)));
  co_return show_store(store);
}

Task<Reply<Json>> archive_store(MemoryStores& memories, Call& call) {
  CO_TRY(const auto store, co_await memories.archive_store(place_of(call)));
  co_return show_store(store);
}

Task<Reply<Json>> delete_store(MemoryStores& memories, Call& call) {
  CO_TRY_VOID(co_await memories.delete_store(place_of(call)));
  co_return Json{{"id", call.ids[0]}, {"type", "memory_store_deleted"}};
}

// ---- memories

Reply<Json> show_written(const memory::Written& written, View view) {
  if (const auto* failed = std::get_if<memory::PreconditionFailed>(&written))
    return refusal_of(*failed);
  if (const auto* conflict = std::get_if<memory::PathConflict>(&written))
    return refusal_of(*conflict);
  return show_memory(std::get<memory::Memory>(written), view);
}

Task<Reply<Json>> create_memory(MemoryStores& memories, Call& call) {
  CO_TRY(const Query query, query_of(call));
  CO_TRY(const View view, read_view(query, View::kBasic));
  CO_TRY(const auto body, co_await call.body());
  CO_TRY(auto wanted, read_new_memory(body));
  const auto written = co_await memories.create(place_of(call), std::move(wanted), author_of(call));
  if (!written) co_return refusal_of(written.error());
  co_return show_written(*written, view);
}

Task<Reply<Json>> list_memories(MemoryStores& memories, Call& call) {
  CO_TRY(const Query query, query_of(call));
  CO_TRY(const auto wanted, read_memory_query(query));
  CO_TRY(const auto page, co_await memories.list(place_of(call), wanted));
  co_return show_page(
      page, [&](const memory::MemoryEntry& entry) { return show_entry(entry, wanted.view); });
}

Task<Reply<Json>> get_memory(MemoryStores& memories, Call& call) {
  CO_TRY(const Query query, query_of(call));
  CO_TRY(const View view, read_view(query, View::kFull));
  CO_TRY(const auto found, co_await memories.find(place_of(call), call.ids[1], view));
  co_return show_memory(found, view);
}

Task<Reply<Json>> update_memory(MemoryStores& memories, Call& call) {
  CO_TRY(const Query query, query_of(call));
  CO_TRY(const View view, read_view(query, View::kBasic));
  CO_TRY(const auto body, co_await call.body());
  CO_TRY(auto change, read_memory_change(body));
  const auto written =
      co_await memories.update(place_of(call), call.ids[1], std::move(change), author_of(call));
  if (!written) co_return refusal_of(written.error());
  co_return show_written(*written, view);
}

Task<Reply<Json>> delete_memory(MemoryStores& memories, Call& call) {
  CO_TRY(const Query query, query_of(call));
  CO_TRY(const auto removed,
         co_await memories.remove(place_of(call), call.ids[1],
                                  query.find("expected_content_sha256"), author_of(call)));
  if (const auto* failed = std::get_if<memory::PreconditionFailed>(&removed))
    co_return refusal_of(*failed);
  co_return Json{{"id", call.ids[1]}, {"type", "memory_deleted"}};
}

// ---- versions

Task<Reply<Json>> list_versions(MemoryStores& memories, Call& call) {
  CO_TRY(const Query query, query_of(call));
  CO_TRY(auto wanted, read_version_query(query));
  CO_TRY(const auto page, co_await memories.list_versions(place_of(call), std::move(wanted)));
  co_return show_page(page, show_version);
}

Task<Reply<Json>> get_version(MemoryStores& memories, Call& call) {
  CO_TRY(const Query query, query_of(call));
  CO_TRY(const View view, read_view(query, View::kFull));
  CO_TRY(const auto version, co_await memories.find_version(place_of(call), call.ids[1], view));
  co_return show_version(version);
}

Task<Reply<Json>> redact_version(MemoryStores& memories, Call& call) {
  CO_TRY(const auto version,
         co_await memories.redact_version(place_of(call), call.ids[1], author_of(call).actor));
  co_return show_version(version);
}

using Step = Task<Reply<Json>> (*)(MemoryStores&, Call&);

// A token for one session opens the notes that the session has, as the session has them.
Task<Reply<Json>> take_granted(MemoryStores& memories, const GrantFinder& find_grant, Step step,
                               Call& call) {
  const Caller& caller = call.caller;
  if (!caller.session.empty()) {
    StoreGrant grant = StoreGrant::kNone;
    if (find_grant) {
      CO_TRY(grant, co_await find_grant(caller.project, caller.session, call.ids[0]));
    }
    if (grant == StoreGrant::kNone)
      co_return Refusal{403, "permission_error", "the session of this token has no such store"};
    if (grant == StoreGrant::kRead && call.exchange.request().method != "GET")
      co_return Refusal{403, "permission_error", "the session of this token only reads this store"};
  }
  co_return co_await step(memories, call);
}

}  // namespace

std::vector<http::Route> memory_routes(MemoryStores& memories, GrantFinder find_grant) {
  const auto with = [&memories](auto work) {
    return answering([&memories, work](Call& call) { return work(memories, call); });
  };
  const auto granted = [&memories, finder = std::move(find_grant)](Step step) {
    return answering([&memories, finder, step](Call& call) {
      return take_granted(memories, finder, step, call);
    });
  };
  return {
      {"POST", "/v1/memory_stores", with(create_store)},
      {"GET", "/v1/memory_stores", with(list_stores)},
      {"GET", "/v1/memory_stores/{id}", with(get_store)},
      {"POST", "/v1/memory_stores/{id}", with(update_store)},
      {"DELETE", "/v1/memory_stores/{id}", with(delete_store)},
      {"POST", "/v1/memory_stores/{id}/archive", with(archive_store)},
      {"POST", "/v1/memory_stores/{id}/memories", granted(create_memory)},
      {"GET", "/v1/memory_stores/{id}/memories", granted(list_memories)},
      {"GET", "/v1/memory_stores/{id}/memories/{memory}", granted(get_memory)},
      {"POST", "/v1/memory_stores/{id}/memories/{memory}", granted(update_memory)},
      {"DELETE", "/v1/memory_stores/{id}/memories/{memory}", granted(delete_memory)},
      {"GET", "/v1/memory_stores/{id}/memory_versions", with(list_versions)},
      {"GET", "/v1/memory_stores/{id}/memory_versions/{version}", with(get_version)},
      {"POST", "/v1/memory_stores/{id}/memory_versions/{version}/redact", with(redact_version)}};
}

}  // namespace pons::managed
