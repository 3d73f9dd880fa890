#include "pons/memory/agent_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/memory/tools.h"
#include "wrapping.h"

namespace pons::memory {

namespace {

std::string names_of(const SessionMemory& session) {
  std::string names;
  for (const AttachedStore& store : session.stores)
    names += (names.empty() ? "" : ", ") + store.name;
  return names;
}

Result<AttachedStore> pick_store(const SessionMemory& session, const std::string& name) {
  const auto refuse = [&](std::string_view what) {
    return make_error(ErrorCode::kInvalid, "find memory store",
                      fmt::format("{}; the memory stores of this session are: {}", what,
                                  session.stores.empty() ? "none" : names_of(session)));
  };
  if (name.empty() && session.stores.size() == 1) return session.stores.front();
  if (name.empty()) return refuse("say which memory store is meant");
  const auto found = std::ranges::find(session.stores, name, &AttachedStore::name);
  if (found == session.stores.end()) return refuse("there is no memory store of this name");
  return *found;
}

Result<AttachedStore> pick_to_write(const SessionMemory& session, const std::string& name) {
  AttachedStore store = TRY(pick_store(session, name));
  if (store.access == StoreAccess::kReadOnly)
    return make_error(ErrorCode::kDenied, "write memory",
                      fmt::format("the memory store {} is read-only in this session", store.name));
  return store;
}

Author author_of(const SessionMemory& session) {
  return {.actor = {.kind = Actor::Kind::kSession, .id = session.session},
          .provenance = session.has_read_untrusted ? Provenance::kUntrusted : Provenance::kAgent,
          .change = session.call};
}

Task<Result<MemoryToolResult>> run_search(MemoryStores& stores, SessionMemory session,
                                          std::string input) {
  CO_TRY(const SearchArguments wanted, read_search(input));
  std::vector<AttachedStore> searched = session.stores;
  if (!wanted.store.empty()) {
    CO_TRY(const AttachedStore one, pick_store(session, wanted.store));
    searched = {one};
  }
  std::vector<std::string> ids;
  for (const AttachedStore& store : searched) ids.push_back(store.id);
  CO_TRY(const auto hits,
         co_await stores.search(session.project, std::move(ids), wanted.query, wanted.limit));
  if (hits.empty()) co_return MemoryToolResult{.text = "No note matches."};
  MemoryToolResult result;
  std::string lines;
  for (const Hit& hit : hits) {
    const auto store = std::ranges::find(searched, hit.memory.store, &AttachedStore::id);
    lines += fmt::format("{} {} [{}]\n  {}\n", store->name, hit.memory.path,
                         name_of(hit.memory.provenance), hit.snippet);
    result.is_untrusted |= hit.memory.provenance == Provenance::kUntrusted;
  }
  result.text = fmt::format(
      "{}\n{}", kNotesAreData,
      wrap("found", fmt::format("notes=\"{}\" form=\"store path [provenance]\"", hits.size()),
           lines));
  co_return result;
}

Task<Result<MemoryToolResult>> run_read(MemoryStores& stores, SessionMemory session,
                                        std::string input) {
  CO_TRY(const ReadArguments wanted, read_read(input));
  CO_TRY(const AttachedStore store, pick_store(session, wanted.store));
  const Place place{.project = session.project, .store = store.id};
  CO_TRY(const Memory note, co_await stores.find_by_path(place, wanted.path, View::kFull));
  // That it was of use is worth nothing when it cannot be noted.
  (void)co_await stores.note_use(place, note.id);
  co_return MemoryToolResult{
      .text = fmt::format("{}\n{}", kNotesAreData, wrap_note(store.name, note)),
      .is_untrusted = note.provenance == Provenance::kUntrusted};
}

Task<Result<MemoryToolResult>> run_list(MemoryStores& stores, SessionMemory session,
                                        std::string input) {
  CO_TRY(const ListArguments wanted, read_list(input));
  CO_TRY(const AttachedStore store, pick_store(session, wanted.store));
  CO_TRY(const auto page, co_await stores.list({.project = session.project, .store = store.id},
                                               {.path_prefix = wanted.path_prefix,
                                                .depth = MemoryQuery::Depth::kChildren,
                                                .view = View::kBasic,
                                                .limit = kBasicRowsMax}));
  if (page.entries.empty()) co_return MemoryToolResult{.text = "There is no note."};
  MemoryToolResult result;
  std::string lines;
  for (const MemoryEntry& entry : page.entries) {
    if (const auto* note = std::get_if<Memory>(&entry)) {
      lines += fmt::format("{} [{}; {} bytes]\n", note->path, name_of(note->provenance),
                           note->size_bytes);
      result.is_untrusted |= note->provenance == Provenance::kUntrusted;
    } else {
      lines += std::get<MemoryPrefix>(entry).path + "\n";
    }
  }
  result.text = wrap("list", fmt::format("store=\"{}\"", as_attribute(store.name)), lines);
  if (!page.next.empty()) result.text += "\nThere are more; list a folder, or use memory_search.";
  co_return result;
}

MemoryToolResult describe_written(std::int64_t bytes, std::string_view sha256) {
  return {.text = fmt::format("Written: {} bytes, sha256 {}.", bytes, sha256)};
}

Result<MemoryToolResult> describe(const Written& written) {
  if (const auto* conflict = std::get_if<PathConflict>(&written))
    return make_error(
        ErrorCode::kConflict, "write memory",
        fmt::format("the note {} is in the way: nothing is a note and a folder", conflict->path));
  if (const auto* failed = std::get_if<PreconditionFailed>(&written))
    return make_error(ErrorCode::kConflict, "write memory",
                      fmt::format("somebody has changed the note since (sha256 is now {}); read it "
                                  "again",
                                  failed->sha256));
  const auto& note = std::get<Memory>(written);
  return describe_written(note.size_bytes, note.sha256);
}

// What is not there is made, unless something was expected of it; what somebody else makes in
// between is replaced.
Task<Result<MemoryToolResult>> run_write(MemoryStores& stores, SessionMemory session,
                                         std::string input) {
  CO_TRY(const WriteArguments wanted, read_write(input));
  CO_TRY(const AttachedStore store, pick_to_write(session, wanted.store));
  const Place place{.project = session.project, .store = store.id};
  CO_TRY(const auto done, co_await stores.find_change(place, session.call));
  if (done)
    co_return describe_written(done->size_bytes.value_or(0), done->sha256.value_or("unknown"));
  const auto there = co_await stores.find_by_path(place, wanted.path, View::kBasic);
  if (!there && (there.error().code != ErrorCode::kNotFound || wanted.expected_sha256))
    co_return there.error();
  std::string id = there ? there->id : std::string();
  if (!there) {
    CO_TRY(const Written made,
           co_await stores.create(place, {.path = wanted.path, .content = wanted.content},
                                  author_of(session)));
    const auto* conflict = std::get_if<PathConflict>(&made);
    if (conflict == nullptr || conflict->path != wanted.path) co_return describe(made);
    id = conflict->memory;
  }
  CO_TRY(const Written written,
         co_await stores.update(
             place, id, {.content = wanted.content, .expected_sha256 = wanted.expected_sha256},
             author_of(session)));
  co_return describe(written);
}

Task<Result<MemoryToolResult>> run_delete(MemoryStores& stores, SessionMemory session,
                                          std::string input) {
  CO_TRY(const ReadArguments wanted, read_delete(input));
  CO_TRY(const AttachedStore store, pick_to_write(session, wanted.store));
  const Place place{.project = session.project, .store = store.id};
  CO_TRY(const auto done, co_await stores.find_change(place, session.call));
  if (done) co_return MemoryToolResult{.text = "Deleted."};
  CO_TRY(const Memory note, co_await stores.find_by_path(place, wanted.path, View::kBasic));
  CO_TRY_VOID(co_await stores.remove(place, note.id, std::nullopt, author_of(session)));
  co_return MemoryToolResult{.text = "Deleted."};
}

// Nobody knows whether it was done; whoever asks again finds out.
bool is_passing(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout ||
         error.code == ErrorCode::kIo;
}

Task<Result<MemoryToolResult>> run(MemoryStores& stores, SessionMemory session, std::string tool,
                                   std::string input) {
  if (tool == kSearchTool)
    co_return co_await run_search(stores, std::move(session), std::move(input));
  if (tool == kReadTool) co_return co_await run_read(stores, std::move(session), std::move(input));
  if (tool == kListTool) co_return co_await run_list(stores, std::move(session), std::move(input));
  if (tool == kWriteTool)
    co_return co_await run_write(stores, std::move(session), std::move(input));
  if (tool == kDeleteTool)
    co_return co_await run_delete(stores, std::move(session), std::move(input));
  co_return make_error(ErrorCode::kInvalid, "run tool", "there is no such memory tool");
}

}  // namespace

Task<Result<MemoryToolResult>> run_memory_tool(MemoryStores& stores, SessionMemory session,
                                               std::string tool, std::string input) {
  auto result = co_await run(stores, std::move(session), std::move(tool), std::move(input));
  if (!result && is_passing(result.error())) co_return result.error();
  if (!result) co_return MemoryToolResult{.text = result.error().message, .is_error = true};
  co_return *std::move(result);
}

}  // namespace pons::memory
