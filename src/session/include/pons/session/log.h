#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
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
  Seq parent_call = 0;  // of it: which wanted this one
  std::string title;
  Status status = Status::kIdle;
  std::string ended;  // how the last turn did; empty: there was none, or it runs
  Seq head = 0;
  std::int64_t created_ms = 0;
  std::int64_t updated_ms = 0;
  std::optional<std::int64_t> archived_ms = std::nullopt;
  Usage usage = {};
  std::string home = {};  // the node that has its sandboxes; empty: none has
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
  std::string kind;  // as in chores.h
  std::string what;
  std::string node = {};  // whose it is to do
};

// What somebody said to a process that does not have the session, for the one that has it: all of
// it is taken, or nothing.
struct HandedOver {
  std::string id;
  std::string session;
  std::vector<Event> events;
};

// One of those, in a batch: the numbers that its events have.
struct TakenOver {
  std::string id;
  std::vector<Seq> seqs;
};

// What became of it.
using Reply = Result<std::vector<Seq>>;

struct Batch {
  Lease lease;
  std::vector<StoredEvent> events;  // numbered without a gap from behind the session's head
  Summary summary;                  // after them
  std::vector<Blob> blobs = {};
  std::vector<Chore> chores = {};
  std::vector<TakenOver> taken = {};  // each once, whoever tries
};

struct ListQuery {
  std::string project;
  std::string before;  // id of the last one that was seen; empty: from the newest on
  std::int64_t limit = 100;
  bool with_archived = false;
  std::string parent = {};  // only agents that work for this session; empty: any session
};

// Whether a session may be taken from the node that has its sandboxes, while that one lives.
enum class Take : std::uint8_t { kUnlessAtHome, kAnyway };

// Whether a log says that its session is over. It does not when the session is about to go itself.
enum class Farewell : std::uint8_t { kSaid, kUnsaid };

// What processes that share the store tell each other (pons/store/bell.h); a session's id follows.
inline constexpr std::string_view kSessionTopic = "s:";  // it has new events, or a reply
inline constexpr std::string_view kGoneTopic = "g:";     // it is deleted
inline constexpr std::string_view kInputTopic = "i:";    // something waits for whoever has it
inline constexpr std::string_view kChoreTopic = "chore";

// Where sessions are stored. kConflict of append(): somebody else has the session now, or has
// appended; nothing was stored. kTimeout: it may have been.
class Log {
 public:
  virtual ~Log() = default;

  // A new session with its first events, held by whoever asks. kConflict: the id is taken.
  virtual Task<Result<Lease>> create(Summary summary, std::vector<StoredEvent> events) = 0;
  // kNotFound; kConflict while another process has it; kInvalid when it is archived.
  virtual Task<Result<Lease>> take(std::string session, Take how) = 0;
  // Sessions that are not idle and that no living process has, at most so many, for whoever asks;
  // of several who ask at once each gets others.
  virtual Task<Result<std::vector<Lease>>> claim(std::int64_t limit) = 0;
  virtual Task<Result<void>> append(const Batch& batch) = 0;
  // Says that the process is still there, for all sessions that it has.
  virtual Task<Result<void>> renew() = 0;

  // Some of them, in their order; none when there are none.
  virtual Task<Result<std::vector<StoredEvent>>> read(std::string session, Seq after,
                                                      std::int64_t limit) = 0;
  virtual Task<Result<Summary>> find(std::string session) = 0;
  virtual Task<Result<std::vector<Summary>>> list(ListQuery query) = 0;
  // Those that are not idle and that no living process has, or that this one has, or had before it
  // was started again: by their ids, so many behind that one.
  virtual Task<Result<std::vector<std::string>>> list_orphans(std::string after,
                                                              std::int64_t limit) = 0;
  // What the log has of it, if anything. kConflict: the session is at work, or archived already.
  virtual Task<Result<std::vector<StoredEvent>>> archive(std::string session, std::int64_t at_ms,
                                                         Farewell farewell) = 0;

  virtual Task<Result<std::string>> read_blob(std::string project, std::string digest) = 0;
  virtual Task<Result<std::vector<Chore>>> list_chores(std::int64_t limit) = 0;
  virtual Task<Result<void>> finish_chores(std::vector<std::string> ids) = 0;

  // ---- between processes that share it

  // Stored for whoever has the session; its id.
  virtual Task<Result<std::string>> hand_over(std::string session, std::vector<Event> inputs) = 0;
  // For sessions that this process has, or had last, or that nobody alive has; oldest first.
  virtual Task<Result<std::vector<HandedOver>>> list_inputs(std::int64_t limit) = 0;
  // To one that is not in a batch. The first reply counts.
  virtual Task<Result<void>> reply(std::string handed_over, std::string session, Reply reply) = 0;
  // Nothing: there is none yet. kNotFound: it is not known any more.
  virtual Task<Result<std::optional<Reply>>> find_reply(std::string handed_over) = 0;
  // Forgets those that were replied to long ago.
  virtual Task<Result<void>> forget_replies() = 0;
  virtual Task<Result<std::map<std::string, Seq>>> read_heads(
      std::vector<std::string> sessions) = 0;
};

}  // namespace pons::session
