#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/fd.h"

// What a sandbox is to everyone who uses one, wherever it runs. Plain values that could cross a
// network; an implementation in this process, in the warden, or at a remote service must not be
// told apart (conformance.h checks it).
//
// After a lost answer a call is made again. What makes something under an id (create, fork,
// execute, checkpoint) finds what the first one did. What takes or moves something away (commit,
// remove_template, remove_file, rename_file) says kNotFound when it is done already; the rest comes
// out the same twice. Only input, signals and appended bytes arrive as often as they are sent.

namespace pons::sandbox {

using Milliseconds = std::chrono::milliseconds;

struct Limits {
  std::uint64_t memory_bytes = 512ULL << 20;
  std::uint64_t swap_bytes = 0;
  std::uint32_t cpu_percent = 100;  // 100 is one processor
  std::uint32_t pids = 512;
  std::uint64_t disk_bytes = 0;   // 0: with an upper in memory, memory_bytes less what must stay
  std::uint64_t disk_inodes = 0;  // 0: 1 per 4 KiB of disk_bytes, or as many as memory_bytes leaves
                                  // room for (1280 bytes each); with disk_upper per 16 KiB
  bool disk_upper = false;        // the writable layer on disk; disk_bytes is needed then
  // How fast that disk may be read and written, with disk_upper only. 0: unlimited. kUnsupported
  // where the host cannot limit it.
  std::uint64_t io_read_bytes_per_second = 0;
  std::uint64_t io_write_bytes_per_second = 0;
  std::uint32_t io_read_operations_per_second = 0;
  std::uint32_t io_write_operations_per_second = 0;
  Milliseconds idle_max{0};      // no job, call or connection for so long ends it; 0: never
  Milliseconds lifetime_max{0};  // 0: no end
  bool pause_at_end = false;     // at the end of its lifetime it is paused instead, and waits
  Milliseconds freeze_after{0};  // freeze when idle for so long; 0: never

  bool operator==(const Limits&) const = default;
};

// What makes a sandbox weaker. All off by default, each by a name one can search for.
struct Weakening {
  bool allow_sudo = false;                    // setuid programs work, inside only
  bool allow_nested_user_namespaces = false;  // for programs that make sandboxes themselves
  bool operator==(const Weakening&) const = default;
};

struct TemplateInfo {
  std::string name;
  std::string kind;                      // "host", "debian", "oci", "snapshot"
  std::vector<std::string> layers;       // hex digests, topmost first
  std::vector<std::string> held_layers;  // in list_templates() only: of a former one by its name,
                                         // on which sandboxes still stand
  std::string user = "user";             // default of jobs
  std::string directory;                 // default of jobs; empty: the user's home
  std::map<std::string, std::string> environment;
  Weakening weakening;
  std::uint64_t bytes = 0;
  std::int64_t created_unix_ms = 0;
  std::string source;  // "mmdebstrap bookworm", "oci:/path", "snapshot of sbx-…"
};

enum class State : std::uint8_t { kRunning, kPaused, kEnded };

// How a sandbox reaches the world. With neither, it does not.
struct NetworkRequest {
  std::string environment;  // of the configuration, by its name
  std::string policy;       // or a policy of its own: JSON text
  bool wanted() const { return !environment.empty() || !policy.empty(); }
  bool operator==(const NetworkRequest&) const = default;
};

struct CreateRequest {
  std::string id;  // empty: one is made. [a-z0-9-], 1 to 64 characters
  std::string template_name = "host";
  std::string hostname;  // empty: the id
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> labels;  // kept, and given back
  Limits limits;
  NetworkRequest network;
  bool login_shell = false;  // its first command is likely `/bin/bash -l -c LINE`, as any user's
  bool must_be_new = false;  // kConflict when the id is there already
  bool ephemeral = false;    // does not outlive the process of the provider that made it
  std::string checkpoint;    // of fork() alone: the files as they were then; empty: as they are now
  std::string keep_checkpoint;  // of fork() alone: what it stands on stays with the origin by this
                                // name, and the next such fork stands on it too; until commit()
};

struct SandboxInfo {
  std::string id;
  std::string template_name;
  State state = State::kRunning;
  bool warm = false;  // came from the pool
  std::int64_t created_unix_ms = 0;
  std::int64_t used_unix_ms = 0;  // last call or end of a job
  std::optional<std::int64_t> ends_unix_ms;
  std::map<std::string, std::string> labels;
  Limits limits;
  std::vector<std::string> checkpoints;  // oldest first
  std::uint32_t jobs_running = 0;
  // Of one that ended and was not destroyed: "idle", "lifetime", "died", "silent", "garbage" or
  // "lost", and the same in words. Known for a while.
  std::string ended_by;
  std::string end_reason;
};

// Nothing where the host does not count it.
struct Metrics {
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> memory_cache_bytes;  // of these: files that could be read again
  std::optional<std::uint64_t> memory_peak_bytes;
  std::optional<std::uint64_t> cpu_usec;
  std::optional<std::uint64_t> pids;
  std::optional<std::uint64_t> oom_kills;
  std::optional<std::uint64_t> disk_bytes;
  std::optional<std::uint64_t> disk_inodes;
  std::optional<std::uint64_t> io_read_bytes;  // of a disk (disk_upper), since it was made
  std::optional<std::uint64_t> io_write_bytes;
  std::optional<std::uint64_t> io_read_operations;
  std::optional<std::uint64_t> io_write_operations;
  std::optional<double> memory_pressure;  // percent of the last 10 s in which something waited
  std::optional<double> cpu_pressure;
  std::optional<double> io_pressure;
  std::uint64_t memory_bytes_max = 0;
  std::uint64_t disk_bytes_max = 0;
  std::uint32_t pids_max = 0;
  std::uint32_t cpu_percent_max = 0;
};

struct TerminalSize {
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
};

// The whole transaction around one command.
enum class Transaction : std::uint8_t {
  kNone,
  kRollbackOnFailure,  // undone unless the exit code is 0
  kRollbackAlways,     // a rehearsal
};

struct JobSpec {
  std::string id;                 // empty: one is made; at most 96 bytes
  std::vector<std::string> argv;  // either this
  std::string shell_line;         // or this, for /bin/sh
  std::map<std::string, std::string> environment;
  std::string directory;    // empty: the template's
  std::string user;         // empty: the template's
  std::string input;        // standard input from the start
  bool input_open = false;  // more may follow with write_input; otherwise input ends after `input`
  std::optional<TerminalSize> terminal;
  Milliseconds timeout{0};
  bool kill_at_timeout =
      false;  // SIGKILL at once; otherwise SIGTERM, and two seconds later SIGKILL
  std::uint64_t output_bytes_max = 0;
  std::uint64_t open_files_max = 0;
  std::uint64_t file_bytes_max = 0;
  Transaction transaction = Transaction::kNone;
  bool announce_start = false;  // its stream begins with JobStarted, sent at once
  std::string label;  // kept while the provider's process lives; at most kJobLabelBytesMax
};

inline constexpr std::size_t kJobLabelBytesMax = 16 * 1024;

enum class Outcome : std::uint8_t {
  kRunning,
  kExit,
  kSignal,
  kTimeout,
  kOutOfMemory,
  kOutputLimit,
  kInterrupted,  // the sandbox ended under it: it may have run; look before you retry
};

struct JobInfo {
  std::string id;
  Outcome outcome = Outcome::kRunning;
  int code = 0;  // exit code, or signal
  std::uint32_t pid = 0;
  Milliseconds duration{0};
  std::uint64_t cpu_usec = 0;
  std::uint64_t output_bytes = 0;  // ever written
  std::uint64_t error_bytes = 0;
  bool rolled_back = false;
  // What a person should know of one that failed: limits that were met, with figures ("disk full:
  // …", "too many files: …", "too many processes: …", "out of memory: …"); "the changes are still
  // there: …".
  std::string note;
  std::string label;                        // in list_jobs() only, as the next one
  std::optional<Milliseconds> ended_ago{};  // nothing of one that runs
};

struct Output {
  enum class Stream : std::uint8_t { kOutput, kError } stream = Stream::kOutput;
  std::uint64_t offset = 0;  // of the first byte
  std::uint64_t lost = 0;    // bytes before it that are kept no more
  std::string bytes;
};

struct JobStarted {
  std::uint32_t pid = 0;  // inside the sandbox
};

// Some output; once and last, the end; once and first, where it was asked for, the beginning.
using JobEvent = std::variant<Output, JobInfo, JobStarted>;

struct JobOffsets {
  std::uint64_t output = 0;
  std::uint64_t error = 0;
};

// A job being followed. Leaving it does not end the job. One that writes more than is kept waits
// for whoever follows it and comes back within seconds; of several, for the foremost.
class JobStream {
 public:
  virtual ~JobStream() = default;
  virtual const std::string& job_id() const = 0;
  // Nothing after the JobInfo. The deadline passing is kTimeout and loses nothing.
  virtual Task<Result<std::optional<JobEvent>>> next(
      std::chrono::steady_clock::time_point deadline) = 0;
  // True when another event is here already.
  virtual bool has_next() const { return false; }
};

enum class FileKind : std::uint8_t { kOther, kFile, kDirectory, kLink };

// What the kernel finds behind a link and those that follow.
struct LinkEnd {
  std::string path;  // empty where it has no name
  FileKind kind = FileKind::kOther;
  std::uint32_t mode = 0;
  std::uint64_t size = 0;
};

struct FileInfo {
  std::string path;  // as asked for, or below it; bytes
  FileKind kind = FileKind::kOther;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;
  std::uint64_t inode = 0;
  std::int64_t modified_ns = 0;
  std::string link_target;
  std::optional<LinkEnd> link_end;                // of a link that leads somewhere
  std::map<std::string, std::string> attributes;  // extended ones of "user.", short ones only
};

struct WriteOptions {
  std::uint32_t mode = 0644;
  bool create_parents = true;
  bool append = false;
  bool must_not_exist = false;
  bool in_place = false;  // a file that is there stays the same one, with its mode; a reader may
                          // see a part. Otherwise a new file takes its place, whole
  std::string user;
  std::string owner;  // whose the file and new parents become, if another's: for root only
  // Extended ones, named "user.…", and no others of that name afterwards. kUnsupported where the
  // file system keeps none.
  std::map<std::string, std::string> attributes;
};

struct FileChange {
  enum class Kind : std::uint8_t { kCreate, kWrite, kRemove, kRename, kMode } kind = Kind::kCreate;
  std::string path;
};

// Bytes on their way, pulled by whoever takes them. Empty: the end.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual Task<Result<std::string>> next() = 0;
};

class ChangeStream {
 public:
  virtual ~ChangeStream() = default;
  virtual Task<Result<FileChange>> next(std::chrono::steady_clock::time_point deadline) = 0;
};

// Paths are absolute, or relative to the user's home. `user` empty: the template's default.
class Provider {
 public:
  virtual ~Provider() = default;

  virtual Task<Result<std::vector<TemplateInfo>>> list_templates() = 0;
  // Replaces one of the same name that is not in use.
  virtual Task<Result<void>> put_template(TemplateInfo info) = 0;
  // kConflict while a sandbox uses it. The layers that nobody needs any more.
  virtual Task<Result<std::vector<std::string>>> remove_template(std::string name) = 0;

  virtual Task<Result<SandboxInfo>> create(CreateRequest request) = 0;
  // The same for who asks for a job in it next and tells nobody of it before that has begun.
  virtual Task<Result<SandboxInfo>> create_for_job(CreateRequest request) {
    return create(std::move(request));
  }
  virtual Task<Result<SandboxInfo>> inspect(std::string id) = 0;
  virtual Task<Result<std::vector<SandboxInfo>>> list() = 0;
  virtual Task<Result<void>> destroy(std::string id) = 0;  // also of one that is gone
  virtual Task<Result<Metrics>> metrics(std::string id) = 0;
  virtual Task<Result<SandboxInfo>> set_limits(std::string id, Limits limits) = 0;
  // From now on it lives so long, whatever was settled before; 0: no end. Also of one that is
  // paused: before resuming one whose time is over.
  virtual Task<Result<SandboxInfo>> set_lifetime(std::string id, Milliseconds from_now,
                                                 bool pause_at_end) = 0;
  // From now on it has this one among its labels; an empty value takes it away.
  virtual Task<Result<SandboxInfo>> set_label(std::string id, std::string name,
                                              std::string value) = 0;
  virtual Task<Result<SandboxInfo>> pause(std::string id) = 0;
  virtual Task<Result<SandboxInfo>> resume(std::string id) = 0;

  // Starts the job, or joins the one that has its id. Ids of ended jobs are remembered at least for
  // the next 255 jobs of the sandbox, their output as long as that of all together has room in a
  // sixteenth of the sandbox's memory; then the oldest goes first. One with a transaction waits for
  // the end of another that has one, and is a kConflict when that takes long.
  virtual Task<Result<std::unique_ptr<JobStream>>> execute(std::string id, JobSpec job) = 0;
  virtual Task<Result<std::unique_ptr<JobStream>>> attach(std::string id, std::string job,
                                                          JobOffsets from) = 0;
  virtual Task<Result<std::vector<JobInfo>>> list_jobs(std::string id) = 0;
  virtual Task<Result<void>> write_input(std::string id, std::string job, std::string bytes) = 0;
  virtual Task<Result<void>> close_input(std::string id, std::string job) = 0;
  // To its process group.
  virtual Task<Result<void>> signal(std::string id, std::string job, int number) = 0;
  // SIGKILL to all that the job has begun, also in groups and sessions of their own. What has left
  // it for good (its parents are gone, and it is in another session) is no longer the job's.
  virtual Task<Result<void>> kill(std::string id, std::string job) = 0;
  virtual Task<Result<void>> resize(std::string id, std::string job, TerminalSize size) = 0;

  virtual Task<Result<std::unique_ptr<ByteSource>>> read_file(std::string id, std::string path,
                                                              std::string user,
                                                              std::uint64_t offset,
                                                              std::uint64_t size) = 0;
  virtual Task<Result<FileInfo>> write_file(std::string id, std::string path, WriteOptions options,
                                            std::unique_ptr<ByteSource> bytes) = 0;
  virtual Task<Result<FileInfo>> stat_file(std::string id, std::string path, std::string user) = 0;
  virtual Task<Result<std::vector<FileInfo>>> list_files(std::string id, std::string path,
                                                         std::string user, std::uint32_t depth) = 0;
  // Its parents too. `owner`: as of WriteOptions.
  virtual Task<Result<FileInfo>> make_directory(std::string id, std::string path, std::string user,
                                                std::string owner) = 0;
  virtual Task<Result<void>> remove_file(std::string id, std::string path, std::string user) = 0;
  virtual Task<Result<FileInfo>> rename_file(std::string id, std::string from, std::string to,
                                             std::string user) = 0;
  virtual Task<Result<std::unique_ptr<ChangeStream>>> watch_files(std::string id, std::string path,
                                                                  std::string user,
                                                                  bool recursive) = 0;

  // Checkpoints are named; an empty name makes one. kConflict with "busy_writers" when a process
  // has a file open for writing: nothing changed then.
  virtual Task<Result<std::string>> checkpoint(std::string id, std::string name) = 0;
  virtual Task<Result<void>> rollback(std::string id, std::string name) = 0;
  // Keeps what happened since and forgets the checkpoint.
  virtual Task<Result<void>> commit(std::string id, std::string name) = 0;
  // A new sandbox with the files of this one, now or at a checkpoint, and none of its processes.
  // While processes run here, this one is frozen for as long as copying what it wrote takes, and
  // needs room for that copy; without it, as of a checkpoint. Neither is it changed otherwise. So
  // it is with snapshot(). Limits of memory, processor and processes that are 0 are as of this one,
  // and so are variables of the environment that are not named.
  virtual Task<Result<SandboxInfo>> fork(std::string id, CreateRequest request) = 0;
  // Replaces a template of that name, also while sandboxes of it live: they keep their layers.
  virtual Task<Result<TemplateInfo>> snapshot(std::string id, std::string template_name) = 0;

  // A connection to a port inside, being made: writable when it stands. Whoever carries its bytes
  // holds the sandbox meanwhile.
  virtual Task<Result<linux::UniqueFd>> dial(std::string id, std::uint16_t port) = 0;

  // While the answer lives, the sandbox is in use: neither idle nor frozen for idleness. Nothing
  // where somebody else sees to that.
  virtual std::shared_ptr<const void> hold(const std::string& /*id*/) { return nullptr; }
};

}  // namespace pons::sandbox
