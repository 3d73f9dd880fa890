#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pons::spawner {

// What the warden and the spawner say to each other: fixed-size messages over the channel between
// them. No text is parsed by the process that holds privileges.

inline constexpr std::uint32_t kMagic = 0x504F4E53;  // "PONS"
inline constexpr std::uint16_t kVersion = 5;

inline constexpr std::size_t kTemplateLayersMax = 33;  // of an image, and kTrustLayer
inline constexpr std::size_t kOwnLayersMax = 32;

enum class RequestKind : std::uint16_t {
  kIdentify = 1,    // values: pid, uptime in ms, number of self-test attempts; namespaces that it
                    // holds for no sandbox yet: of users, of networks, of mounts
  kAttempt = 2,     // makes self-test attempt number `argument`; os_error: what the kernel said
  kCreate = 3,      // a sandbox with `create`; comes back with a connection to its cell.
                    // One that exists is found again.
  kConnect = 4,     // a new connection to the cell
  kDestroy = 5,     // answers when no process of it is left, also when there was none; mounts and
                    // groups go soon after, so its key must not be used for another
  kSwitchView = 6,  // replaces the file system by the layers of `view`, unless its upper is mounted
                    // already. With more processes inside than `argument`, which only wait, they
                    // are frozen meanwhile
  kDropLayers = 7,  // deletes layers of its own, `view.layers`, that no view uses
  kMergeLayers = 8,  // the first `argument` of `view.layers` become one new layer `view.upper`; the
                     // others and the template's lie below, all of them. EOPNOTSUPP when they hold
                     // directories too deep to merge: nothing changed
  kSnapshot = 9,     // copies `view.layers` (topmost first) into the layer store, one for one;
                     // values: how many; `digests`: what they are called there
  kFreeze = 10,
  kThaw = 11,         // values: 1 when it was frozen
  kSetLimits = 12,    // create.limits
  kUsage = 13,        // values: see Usage
  kDial = 14,         // a TCP socket being connected to port `argument` inside
  kList = 15,         // values: up to 8 keys greater than `argument`, ascending; 0 after the last
  kOpenNetwork = 16,  // comes back with the two sockets of its way out, TCP and names, which nobody
                      // has yet; EADDRINUSE when somebody has
  kCopyLayer = 17,    // the layer `argument` of its own is copied into a new one, `view.upper`; a
                      // layer that is written to must be frozen by kFreeze meanwhile
  kFindView = 18,     // values: the number of the upper that is mounted
};

struct Digest {  // of a template layer; all zero: the host's own
  std::array<std::uint8_t, 32> bytes{};
  bool operator==(const Digest&) const = default;
};

// The files by which a sandbox trusts what egress shows it and finds its names; the same in all.
inline constexpr Digest kTrustLayer = [] {
  Digest digest;
  digest.bytes.fill(0xFF);
  return digest;
}();

// A layer that a sandbox wrote. Sandboxes may stand on frozen layers of others.
struct OwnLayer {
  std::uint64_t sandbox = 0;
  std::uint32_t number = 0;
  std::uint32_t reserved = 0;
  bool operator==(const OwnLayer&) const = default;
};

struct SandboxLimits {
  std::uint64_t memory_bytes = 0;
  std::uint64_t swap_bytes = 0;
  std::uint64_t pids = 0;
  std::uint64_t cpu_percent = 0;
  std::uint64_t disk_bytes = 0;   // never 0 in kCreate: unlimited is refused
  std::uint64_t disk_inodes = 0;  // never 0 in kCreate
  // Each per second, with kDiskUpper only; 0: unlimited.
  std::uint64_t io_read_bytes = 0;
  std::uint64_t io_write_bytes = 0;
  std::uint64_t io_read_operations = 0;
  std::uint64_t io_write_operations = 0;
};

// What a disk (kDiskUpper) may have.
inline constexpr std::uint64_t kDiskImageBytesMin = 16ULL << 20;
inline constexpr std::uint64_t kDiskImageBytesMax = 1ULL << 40;

enum CreateFlags : std::uint32_t {
  kAllowSudo = 1U << 0,
  kAllowNestedUserNamespaces = 1U << 1,
  kDiskUpper = 1U << 2,   // what it writes lies on disk and not in memory
  kLoginShell = 1U << 3,  // the shell that waits in it has read a login's profiles
};

inline constexpr std::uint32_t kSealAlone = 2;

// The file system of a sandbox: `upper` is writable and new, below it `layers` and then the
// template's layers, all topmost first.
struct View {
  std::uint32_t upper = 0;
  std::uint32_t layer_count = 0;
  std::array<OwnLayer, kOwnLayersMax> layers{};
  std::uint32_t must_seal = 0;  // 1: kSwitchView fails with EBUSY, and changes nothing, when a
                                // process has a file of the old view open for writing; kSealAlone:
                                // also when there are more processes than `argument`
  std::uint32_t reserved = 0;
};

struct Create {
  std::uint32_t flags = 0;
  std::uint32_t template_layer_count = 0;
  std::array<Digest, kTemplateLayersMax> template_layers{};  // topmost first
  SandboxLimits limits;
};

struct Request {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  RequestKind kind = RequestKind::kIdentify;
  std::uint64_t id = 0;       // comes back in the reply; not kNoticeId
  std::uint64_t sandbox = 0;  // chosen by the warden at random, never 0
  std::uint64_t argument = 0;
  Create create;
  View view;
};

enum class Status : std::uint32_t {
  kDone = 0,
  kBadRequest = 1,
  kFailed = 2,  // `step` and `os_error`
  kNoSuchSandbox = 3,
};

// Where a failure happened. Names for people: name_of.
enum class Step : std::uint32_t {
  kNone = 0,
  kUserNamespace,
  kNetNamespace,
  kCgroup,
  kLimits,
  kIoLimits,  // EOPNOTSUPP, ENODEV, EACCES: as of linux::IoThrottle::find
  kSocket,
  kStore,
  kTemplateLayer,
  kOverlay,
  kClone,
  kJoinCgroup,
  kCgroupNamespace,
  kProc,
  kSys,
  kDev,
  kHostTree,
  kStagedTrees,
  kMountNamespace,
  kPivot,
  kUts,
  kEnterUser,
  kIdentity,
  kSeccomp,
  kCapabilities,
  kExecute,
  kFreeze,
  kSeal,
  kSwitch,
  kMerge,
  kCopy,
  kDelete,
  kConnect,
  kDial,
  kWayOut,
  kKeep,
  kCount,
};
const char* name_of(Step step);

// kUsage: indexes into Reply::values. ~0 where the host does not count it.
enum Usage : std::size_t {
  kMemoryBytes,
  kMemoryPeakBytes,
  kCpuUsec,
  kPids,
  kOomKills,
  kDiskBytes,
  kDiskInodes,
  kMemoryPressure,  // hundredths of a percent, some, avg10
  kCpuPressure,
  kIoPressure,
  kIoReadBytes,  // of its disk, since it was made
  kIoWriteBytes,
  kIoReadOperations,
  kIoWriteOperations,
  kPidsRefused,  // processes and threads beyond the limit, since it was made
  kMemoryCacheBytes,
  kUsageCount,
};
using Values = std::array<std::uint64_t, kUsageCount>;

inline constexpr std::int64_t kOsErrorMax = 4095;  // of the kernel

// A new process of the spawner says two things that nobody asked for: that it has begun, with 0 in
// values[0], and there the id of the first request it found. Earlier ones went with its
// predecessor.
inline constexpr std::uint64_t kNoticeId = 0;

struct Reply {
  std::uint32_t magic = kMagic;
  Status status = Status::kDone;
  std::uint64_t id = 0;
  std::int64_t os_error = 0;
  Step step = Step::kNone;
  std::uint32_t reserved = 0;
  Values values{};
  std::array<Digest, 16> digests{};
};

static_assert(sizeof(Create) == 8 + 33 * 32 + 80 && sizeof(View) == 8 + 32 * 16 + 8);
static_assert(sizeof(Request) == 32 + sizeof(Create) + sizeof(View));
static_assert(sizeof(Reply) == 32 + 128 + 512);

// Nothing unless size, magic, version, kind and every count are right, or for a reply size, magic,
// status, step and os_error.
std::optional<Request> parse_request(std::string_view bytes);
std::optional<Reply> parse_reply(std::string_view bytes);

template <class Message>
std::string_view bytes_of(const Message& message) {
  return {reinterpret_cast<const char*>(&message), sizeof message};
}

}  // namespace pons::spawner
