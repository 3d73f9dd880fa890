// The watching part of filesystem.h.

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accounts.h"
#include "entry.h"
#include "filesystem.h"
#include "message.h"
#include "watchers.h"

namespace pons::e2b {

namespace {

using sandbox::FileChange;

const char* type_name(FileChange::Kind kind) {
  switch (kind) {
    case FileChange::Kind::kCreate:
      return "EVENT_TYPE_CREATE";
    case FileChange::Kind::kWrite:
      return "EVENT_TYPE_WRITE";
    case FileChange::Kind::kRemove:
      return "EVENT_TYPE_REMOVE";
    case FileChange::Kind::kRename:
      return "EVENT_TYPE_RENAME";
    case FileChange::Kind::kMode:
      return "EVENT_TYPE_CHMOD";
  }
  return "EVENT_TYPE_UNSPECIFIED";
}

// Relative to the directory; "." is the directory itself.
std::string name_in(std::string_view directory, std::string_view path) {
  if (directory == path) return ".";
  if (path.starts_with(directory)) path.remove_prefix(directory.size());
  while (path.starts_with('/')) path.remove_prefix(1);
  return std::string(path);
}

struct Watching {
  WatchedPlace place;
  bool include_entry = false;
};

// A watch that cannot begin must say so, and not just stay silent.
Task<Result<Watching>> watching_of(Call& call, const Json& request) {
  Watching watching{.place = {.sandbox = call.id()}};
  CO_TRY(auto path, text_field(request, "path"));
  CO_TRY(watching.place.path, co_await resolve_path(call, std::move(path)));
  CO_TRY(watching.place.recursive, flag_field(request, "recursive", false));
  CO_TRY(watching.include_entry, flag_field(request, "includeEntry", false));
  CO_TRY(const auto info, co_await call.awake([&] {
    return call.provider.stat_file(call.id(), watching.place.path, kFileUser);
  }));
  const auto end = opened(info);
  if (!end || end->kind != sandbox::FileKind::kDirectory)
    co_return make_error(ErrorCode::kInvalid, "watch directory",
                         watching.place.path + " is no directory");
  co_return watching;
}

// What is gone again has no entry.
Task<Json> event_json(Describer& describer, const FileChange& change, const Watching& watching) {
  Json event = {{"name", name_in(watching.place.path, change.path)},
                {"type", type_name(change.kind)}};
  const bool may_be_there =
      change.kind != FileChange::Kind::kRemove && change.kind != FileChange::Kind::kRename;
  if (watching.include_entry && may_be_there) {
    auto entry = co_await describer.describe(change.path);
    if (entry) event["entry"] = std::move(*entry);
  }
  co_return event;
}

}  // namespace

Task<Result<void>> watch_directory(Call& call, const Json& request, RpcStream& events) {
  CO_TRY(const auto watching, co_await watching_of(call, request));
  CO_TRY(const auto changes,
         co_await call.awake([&] { return call.watchers.follow(watching.place); }));
  CO_TRY_VOID(co_await events.send(R"({"start":{}})"));
  Describer describer(call);
  for (;;) {
    const TimePoint wake = std::min(events.deadline(), call.loop.now() + events.keep_alive());
    auto change = co_await changes->next(wake);
    if (change) {
      const Json event = {{"filesystem", co_await event_json(describer, *change, watching)}};
      CO_TRY_VOID(co_await events.send(dump_json(event)));
    } else if (change.error().code == ErrorCode::kNotFound) {
      co_return {};  // the directory is no more
    } else if (change.error().code != ErrorCode::kTimeout) {
      co_return std::move(change).error();
    } else if (call.loop.now() >= events.deadline()) {
      co_return make_error(ErrorCode::kTimeout, "watch directory", "the time of this call is over");
    } else if (call.loop.now() >= wake) {
      CO_TRY_VOID(co_await events.send(R"({"keepalive":{}})"));
    }
  }
}

Task<Result<Json>> create_watcher(Call& call, const Json& request) {
  CO_TRY(auto watching, co_await watching_of(call, request));
  CO_TRY(auto id, co_await call.awake([&] {
    return call.watchers.create(watching.place, watching.include_entry);
  }));
  co_return Json{{"watcherId", std::move(id)}};
}

Task<Result<Json>> take_watcher_events(Call& call, const Json& request) {
  CO_TRY(const auto id, text_field(request, "watcherId"));
  CO_TRY(const auto taken, call.watchers.take(call.id(), id));
  const Watching watching{.place = {.sandbox = call.id(), .path = taken.path},
                          .include_entry = taken.include_entry};
  Describer describer(call);
  Json events = Json::array();
  for (const FileChange& change : taken.changes)
    events.push_back(co_await event_json(describer, change, watching));
  co_return Json{{"events", std::move(events)}};
}

Task<Result<Json>> remove_watcher(Call& call, const Json& request) {
  CO_TRY(const auto id, text_field(request, "watcherId"));
  CO_TRY_VOID(call.watchers.remove(call.id(), id));
  co_return Json::object();
}

}  // namespace pons::e2b
