#include "limits_met.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace pons::sandbox {

namespace {

constexpr std::uint64_t kNotCounted = ~0ULL;
// A file system keeps a little for itself, and a writer leaves what is too small for him.
constexpr std::uint64_t kFullBut = 32;

bool is_full(std::uint64_t used, std::uint64_t limit) {
  return used != kNotCounted && limit != 0 && used >= limit - limit / kFullBut;
}

std::uint64_t count_of(std::uint64_t value) {
  return value == kNotCounted ? 0 : value;
}

std::string out_of_memory(const spawner::Values& usage, std::uint64_t limit) {
  std::string words = fmt::format("out of memory: the limit is {} bytes", limit);
  const std::uint64_t peak = usage[spawner::kMemoryPeakBytes];
  return peak == kNotCounted ? words : words + fmt::format(", at most {} were in use", peak);
}

}  // namespace

LimitCounts LimitCounts::of(const spawner::Values& usage) {
  return {.oom_kills = count_of(usage[spawner::kOomKills]),
          .pids_refused = count_of(usage[spawner::kPidsRefused])};
}

void LimitCounts::raise_to(const LimitCounts& later) {
  oom_kills = std::max(oom_kills, later.oom_kills);
  pids_refused = std::max(pids_refused, later.pids_refused);
}

std::string limits_met(const spawner::Values& usage, const spawner::SandboxLimits& limits,
                       const LimitCounts& before) {
  const LimitCounts now = LimitCounts::of(usage);
  std::vector<std::string> met;
  if (now.oom_kills > before.oom_kills) met.push_back(out_of_memory(usage, limits.memory_bytes));
  if (is_full(usage[spawner::kDiskBytes], limits.disk_bytes))
    met.push_back(fmt::format("disk full: {} of {} bytes are in use", usage[spawner::kDiskBytes],
                              limits.disk_bytes));
  if (is_full(usage[spawner::kDiskInodes], limits.disk_inodes))
    met.push_back(fmt::format("too many files: {} of {} inodes are in use",
                              usage[spawner::kDiskInodes], limits.disk_inodes));
  if (now.pids_refused > before.pids_refused)
    met.push_back(
        fmt::format("too many processes: the limit is {} with all threads, {} more were refused",
                    limits.pids, now.pids_refused - before.pids_refused));
  return fmt::format("{}", fmt::join(met, "; "));
}

}  // namespace pons::sandbox
