#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pons/base/clock.h"
#include "pons/managed/query.h"
#include "pons/managed/reply.h"
#include "pons/store/store.h"

namespace pons::managed {

// A session whose tools are done outside, as something that a worker takes on.
struct WorkItem {
  std::string id;
  std::string project;
  std::string environment;
  std::string session;
  std::string state;  // queued, starting, active, stopping, stopped
  std::string metadata;
  std::int64_t created_ms = 0;
  std::int64_t offered_ms = 0;
  std::optional<std::int64_t> acknowledged_ms = std::nullopt;
  std::optional<std::int64_t> started_ms = std::nullopt;
  std::optional<std::int64_t> heartbeat_ms = std::nullopt;
  std::int64_t ttl_seconds = 0;
  std::optional<std::int64_t> stop_requested_ms = std::nullopt;
  std::optional<std::int64_t> stopped_ms = std::nullopt;
};

struct WorkStats {
  std::int64_t queued = 0;
  std::int64_t offered = 0;  // of those, and nobody has said that they take it
  std::optional<std::int64_t> oldest_ms = std::nullopt;
};

struct WorkPlace {
  std::string project;
  std::string environment;
};

// The queue of an environment. There is work while a session of it does not rest and no worker has
// it; a worker that is not heard of any more has nothing.
class WorkItems {
 public:
  WorkItems(store::Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  // The oldest that nobody has taken, and that was not offered within that time; nothing: none.
  Task<Reply<std::optional<WorkItem>>> offer(WorkPlace place, Duration reclaim);
  Task<Reply<WorkItem>> find(WorkPlace place, std::string id);
  Task<Reply<WorkItem>> acknowledge(WorkPlace place, std::string id);
  // `expected`: what the caller was told last, or that it was told nothing yet; nothing: whatever.
  Task<Reply<WorkItem>> heartbeat(WorkPlace place, std::string id, std::int64_t ttl_seconds,
                                  std::optional<std::string> expected);
  enum class Stop : std::uint8_t { kAsk, kNow };
  Task<Reply<WorkItem>> stop(WorkPlace place, std::string id, Stop how);
  Task<Reply<WorkItem>> replace_metadata(const WorkItem& before, std::string metadata);
  Task<Reply<WorkStats>> count(WorkPlace place);
  // Newest first, up to one more than is wanted.
  Task<Reply<std::vector<WorkItem>>> list(WorkPlace place, const PageWish& wish);

 private:
  std::int64_t now_ms() const;
  Task<Result<void>> bring_up_to_date(WorkPlace place);
  Task<Result<std::vector<WorkItem>>> read(std::string where, std::vector<store::Value> values);

  store::Store& store_;
  const Clock& clock_;
};

}  // namespace pons::managed
