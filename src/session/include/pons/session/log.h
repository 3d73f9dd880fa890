#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/session/event.h"
#include "pons/session/state.h"

namespace pons::session {

// The right to append to one session. Whoever takes it next has a higher epoch, and from then on
// nothing is stored for this one.
struct Lease {
  std::string session;
  std::string project;
  std::int64_t epoch = 0;
};

// What lists show, kept beside the log so that no list reads events.
struct Summary {
  std::string id;
  std::string project;
  std::string agent;
  std::string parent;
  std::string title;
  Status status = Status::kIdle;
  std::string ended;  // how the last turn did; empty: there was none, or it runs
  Seq head = 0;
  std::int64_t created_ms = 0;
  std::int64_t updated_ms = 0;
  std::optional<std::int64_t> archived_ms = std::nullopt;
  Usage usage = {};
};

// Something large that an event names by its SHA-256.
struct Blob {
  std::string digest;
  std::string bytes;
};

// What is to be done outside because of stored events, at least once. Stored with them, forgotten
// when it is done.
struct Chore {
  std::string id;
  std::string project;
  std::string session;
  std::string kind;  // "destroy_sandbox", "stop_session"
  std::string what;
};

struct Batch {
  Lease lease;
  std::vector<StoredEvent> events;  // numbered without a gap from behind the session's head
  Summary summary;                  // after them
  std::vector<Blob> blobs = {};
  std::vector<Chore> chores = {};
};

struct ListQuery {
  std::string project;
  std::string before;  // id of the last one that was seen; empty: from the newest on
  std::int64_t limit = 100;
  bool with_archived = false;
  std::string parent = {};  // only agents that work for this session; empty: any session
};

// Where sessions are stored. kConflict of append(): somebody else has the session now, or has
// appended; nothing was stored. kTimeout: it may have been.
class Log {
 public:
  virtual ~Log() = default;

  // A new session with its first events, held by whoever asks. kConflict: the id is taken.
  virtual Task<Result<Lease>> create(Summary summary, std::vector<StoredEvent> events) = 0;
  // kNotFound; kConflict while another process has it; kInvalid when it is archived.
  virtual Task<Result<Lease>> take(std::string session) = 0;
  virtual Task<Result<void>> append(const Batch& batch) = 0;
  // Says that the process is still there, for all sessions that it has.
  virtual Task<Result<void>> renew() = 0;

  // Some of them, in their order; none when there are none.
  virtual Task<Result<std::vector<StoredEvent>>> read(std::string session, Seq after,
                                                      std::int64_t limit) = 0;
  virtual Task<Result<Summary>> find(std::string session) = 0;
  virtual Task<Result<std::vector<Summary>>> list(ListQuery query) = 0;
  // Those that are not idle and that no living process has, or that this one had before it was
  // started again.
  virtual Task<Result<std::vector<std::string>>> list_orphans() = 0;
  virtual Task<Result<void>> archive(std::string session, std::int64_t at_ms) = 0;

  virtual Task<Result<std::string>> read_blob(std::string project, std::string digest) = 0;
  virtual Task<Result<std::vector<Chore>>> list_chores(std::int64_t limit) = 0;
  virtual Task<Result<void>> finish_chores(std::vector<std::string> ids) = 0;
};

}  // namespace pons::session
