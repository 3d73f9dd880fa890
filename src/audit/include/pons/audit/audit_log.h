#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/audit/decision.h"
#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/unique_handle.h"
#include "pons/linux/fd.h"

// Decisions as JSON lines, each with the hash of the one before and its own (SHA-256), so that a
// line that was changed, removed or moved shows. The chain runs on over files. It has no key:
// whoever can rewrite the whole log can make it consistent again, unless a hash of it is known
// elsewhere (verify.h takes one).

namespace pons::audit {

enum class Retention : std::uint8_t {
  kKeepEverything,  // at the quota, events are counted and no longer written
  kRemoveOldest,    // at the quota, the oldest file goes, and an event says so
};

struct AuditOptions {
  std::uint64_t file_bytes_max = 64ULL << 20;
  std::uint64_t total_bytes_max = 4ULL << 30;
  Retention retention = Retention::kKeepEverything;
  // Per sandbox. What is above is counted, by verdict, and the count is an event.
  std::uint32_t events_per_second = 200;
  std::uint32_t events_at_once = 2000;
  // Takes out of a text what must not be written (stubs, secrets); applied to what a sandbox chose.
  std::function<void(std::string&)> redact;
};

struct Head {
  std::uint64_t seq = 0;  // of the last event; 0 when there is none
  std::string hash;       // of the last event; 64 zeros when there is none
};

struct Counts {
  std::uint64_t written = 0;     // since it was opened
  std::uint64_t suppressed = 0;  // above a sandbox's rate
  std::uint64_t lost = 0;        // the disk or the quota was full
};

class UnderwayNotes;

// One process writes a directory. Nothing blocks for long: flush() writes what append() gathered.
class AuditLog {
 public:
  // Goes on with the chain that is there; a line that a crash cut off is removed, and an event says
  // so. kDenied when the end of the log is not what this wrote. `clock` outlives the log.
  static Result<std::unique_ptr<AuditLog>> open(const std::string& directory, const Clock& clock,
                                                AuditOptions options = {});
  ~AuditLog();  // flushes
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // An error means that the event is not, and will not be, in the log: kLimit when the quota or the
  // buffer is full. Above the sandbox's rate the event is counted, which is no error.
  Result<void> append(const Decision& decision);
  // The same without a rate: whoever takes the requests limits them.
  Result<void> append(const AccessEvent& event);
  // Call at least every 100 ms while there are events.
  Result<void> flush();
  // Hands what append() gathered to the kernel at once.
  Result<void> write_buffer();

  // Something that was let through and has not ended. While it lives, and until what was appended
  // by then is written, a note of it is with the kernel: when this process is killed, the log of
  // the next one says that it was cut. Does not outlive the log.
  struct Place {
    AuditLog* log = nullptr;
    std::uint32_t number = 0;
    bool operator==(const Place&) const = default;
  };
  struct UnderwayTraits {
    using Value = Place;
    static Place empty() { return {}; }
    static void close(Place place) noexcept { place.log->ended_.push_back(place.number); }
  };
  using Underway = UniqueHandle<UnderwayTraits>;
  // Before the first byte leaves. What finds no place for its note is an event right now ("begun").
  [[nodiscard]] Underway begin(Decision decision);

  const Head& head() const { return head_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Allowance {
    double tokens = 0;
    TimePoint filled{};
    std::array<std::uint64_t, kVerdicts> suppressed{};
    bool any_suppressed() const;
  };

  AuditLog(std::string directory, const Clock& clock, AuditOptions options);
  Result<void> resume();
  Result<std::size_t> cut_torn_line();
  Result<void> record_left_underway();
  Result<std::string> read_recent() const;
  Result<void> write_event(std::string_view kind, std::string_view fields);
  Result<void> record_suppressed(const std::string& sandbox, Allowance& allowance);
  Result<void> record_lost();
  Result<void> make_room(std::size_t bytes);
  Result<void> remove_oldest();
  Result<void> open_file(std::uint64_t number);
  std::map<std::string, Allowance>::iterator allowance_of(const std::string& sandbox);
  void refill(Allowance& allowance) const;
  std::string cleaned(const std::string& text, std::size_t bytes_max) const;
  std::string fields_of(const Decision& decision) const;

  std::string directory_;
  const Clock& clock_;
  AuditOptions options_;
  Head head_;
  Counts counts_;
  std::uint64_t lost_unrecorded_ = 0;
  bool full_ = false;                             // and an event says so
  std::map<std::uint64_t, std::uint64_t> files_;  // bytes by number; the last is open
  linux::UniqueFd file_;
  std::string buffer_;
  std::map<std::string, Allowance> allowances_;
  std::unique_ptr<UnderwayNotes> notes_;
  std::vector<std::uint32_t> ended_;  // places of notes whose decisions are in the buffer
};

}  // namespace pons::audit
