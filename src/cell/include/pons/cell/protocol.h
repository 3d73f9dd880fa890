#pragma once

#include <stdint.h>

// What the warden says to a cell (PID 1 of a sandbox) and what it answers. This header is shared
// with a program without a C++ library: plain structs, C headers only.
//
// One SEQPACKET connection carries requests and replies, each one message of at most
// kMessageBytesMax: a fixed header and then a payload. Everything is pulled: a cell sends nothing
// that was not asked for, so a reader that is slow costs the cell no memory. Any number of requests
// may wait at once; replies carry their number. A cell serves several connections: after a restart
// of the warden the new one finds every job by its name and reads on from any offset still kept.
//
// A request that repeats the name of a job never starts it twice.

namespace pons::cell {

// How long after its claim a sandbox still has a shell waiting for a first line. Whoever has not
// used it by then may not for a long time, and it is a quarter of the memory of an idle sandbox.
inline constexpr uint64_t kShellKeptMs = 10'000;

inline constexpr uint32_t kMagic = 0x43454C4C;  // "CELL"
inline constexpr uint16_t kVersion = 1;
inline constexpr uint32_t kMessageBytesMax = 128 * 1024;
inline constexpr uint32_t kJobNameBytes = 96;  // without a zero at the end when full
inline constexpr uint32_t kUserNameBytes = 64;
inline constexpr uint32_t kJobsMax = 256;  // ended jobs make room, oldest first, for new ones
inline constexpr uint32_t kWaitForever = 0xFFFFFFFF;

enum class Op : uint16_t {
  kPing = 1,        // payload: none. Answers when the cell is well.
  kClaim = 2,       // Claim, strings. Once, before the first job; the same again changes nothing.
  kStart = 3,       // Start, strings. Starts the job unless it exists, then answers as kRead does.
  kRead = 4,        // Read. Answers with what is there past the offsets, or waits for it.
  kWrite = 5,       // Write, bytes. Answers how many bytes standard input took.
  kCloseInput = 6,  // none
  kSignal = 7,      // Signal
  kResize = 8,      // Resize
  kList = 9,        // none. Answers JobState[].
  kForget = 10,     // none. Drops an ended job and its output; EBUSY while its process runs.
};

// The first bytes of every request. `job` names the job for the operations that have one.
struct RequestHeader {
  uint32_t magic;
  uint16_t version;
  Op op;
  uint64_t id;  // comes back in the reply; 0: none is wanted
  char job[kJobNameBytes];
};

enum class Status : uint32_t {
  kDone = 0,
  kBadRequest = 1,
  kNoSuchJob = 2,
  kTableFull = 3,    // kJobsMax jobs are running
  kFailed = 4,       // `step` and `os_error` say what failed
  kNotClaimed = 5,   // a job before the claim
  kOtherClaim = 6,   // a claim that differs from the first
  kInputClosed = 7,  // the job reads no more
};

// Where starting a job failed.
enum class Step : uint32_t {
  kNone = 0,
  kFindUser = 1,
  kPipes = 2,
  kTerminal = 3,
  kFork = 4,
  kIdentity = 5,
  kDirectory = 6,
  kLimits = 7,
  kExecute = 8,
  kSignal = 9,
  kInput = 10,
  kHostname = 11,
};

struct ReplyHeader {
  uint32_t magic;
  Status status;
  uint64_t id;
  Step step;
  int32_t os_error;
};

// Strings that follow a struct are zero-terminated, back to back, in the order named.

// Who this sandbox is. Strings: hostname, default user, default directory (empty: the user's home),
// then `environment_count` times "NAME=value".
struct Claim {
  uint32_t environment_count;
  uint32_t output_kib_max;  // what the output of all jobs together may take of the sandbox's memory
                            // (0: kOutputBytesDefault): past it that of ended ones goes, oldest
                            // first, and what running ones have is not getting larger
};

enum StartFlags : uint32_t {
  kShellLine = 1U << 0,  // one argument: a line for /bin/sh, from the waiting shell if it can be
  kTerminal = 1U << 1,   // standard streams are a terminal; there is no separate standard error
  kInputOpen = 1U << 2,  // standard input stays open for kWrite; otherwise it is empty
  kLossless = 1U << 3,   // when the buffer is full the job waits for its reader, however long
  kBuiltin = 1U << 4,    // argv[0] names a program inside the cell (see builtin.h), not a file
  kKillAtTimeout = 1U << 5,  // at timeout_ms, without SIGTERM before
};

// Strings: user (empty: the claim's), directory (empty: the claim's), argv, then environment on top
// of the claim's.
struct Start {
  uint32_t flags;
  uint32_t argument_count;
  uint32_t environment_count;
  uint16_t rows;
  uint16_t columns;
  uint64_t timeout_ms;        // 0: none. Then SIGTERM, and SIGKILL two seconds later.
  uint64_t output_bytes_max;  // 0: none. Past it the job is killed: outcome kLimit.
  uint64_t open_files_max;    // 0: the cell's own limit
  uint64_t file_bytes_max;    // 0: none
  uint64_t buffer_bytes;      // of each stream; 0: kBufferBytesDefault
  uint32_t wait_ms;           // as in Read
  uint32_t reserved;
};

inline constexpr uint64_t kBufferBytesDefault = 8ULL << 20;
inline constexpr uint64_t kOutputBytesDefault = 32ULL << 20;
inline constexpr uint64_t kBufferBytesMax = 256ULL << 20;
// A job whose buffer is full waits for a reader that asked so recently; without one the oldest
// bytes make room. Of several readers the foremost counts.
inline constexpr uint64_t kReaderMsMax = 10'000;

struct Read {
  uint64_t output_offset;
  uint64_t error_offset;
  uint32_t wait_ms;    // answers after this time even if nothing happened
  uint32_t bytes_max;  // of both streams together; at most what fits into one message
};

struct Write {
  uint64_t offset;  // of the first byte in the job's input: bytes it already has are not taken
                    // twice, and past a gap, or while another write waits, none are taken
};

enum class Reach : uint32_t {
  kProcess = 0,  // the first one
  kGroup = 1,    // its process group
  kJob = 2,      // all of them, wherever they have moved to; SIGKILL only
};

struct Signal {
  int32_t number;
  Reach reach;
};

struct Resize {
  uint16_t rows;
  uint16_t columns;
};

enum class Ended : uint32_t {
  kRunning = 0,
  kExit = 1,     // `code`
  kSignal = 2,   // `code` is the signal
  kTimeout = 3,  // timeout_ms passed
  kLimit = 4,    // output_bytes_max was passed
};

struct JobState {
  char job[kJobNameBytes];
  Ended ended;
  int32_t code;
  uint32_t pid;  // inside the sandbox; 0 before it has one
  uint32_t flags;
  uint64_t started_ms;  // by the cell's monotonic clock
  uint64_t ended_ms;
  uint64_t user_usec;  // of the first process and the children it waited for
  uint64_t system_usec;
  uint64_t output_end;  // bytes ever written
  uint64_t error_end;
  uint64_t output_kept;  // offset of the first byte still there
  uint64_t error_kept;
  uint64_t input_taken;  // bytes of standard input
};

// The answer to kStart and kRead, followed by output_size and then error_size bytes. The offsets
// are later than asked for when older bytes are gone.
struct ReadReply {
  JobState state;
  uint64_t output_offset;
  uint64_t error_offset;
  uint32_t output_size;
  uint32_t error_size;
  uint32_t output_closed;  // 1: at its end, or the job has ended: only processes that it left
                           // behind could still write, and what they write is kept as well
  uint32_t error_closed;
};

struct WriteReply {
  uint64_t taken;  // how far standard input got, in all; waits until at least one byte was taken
};

static_assert(sizeof(RequestHeader) == 112 && sizeof(ReplyHeader) == 24 && sizeof(Start) == 64 &&
              sizeof(JobState) == 184 && sizeof(ReadReply) == 216);

}  // namespace pons::cell
