#include "pons/linux/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ranges>
#include <thread>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::linux {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kDestroyDeadline{10};
constexpr std::chrono::milliseconds kFreezeDeadline{500};
constexpr std::chrono::microseconds kFreezePauseMax{1000};
constexpr std::chrono::seconds kKillDeadline{10};
constexpr std::size_t kProcessListBytesMax = 8 << 20;
constexpr std::uint64_t kCpuPeriodUsec = 100'000;

// The value of "key value" in a flat-keyed file such as memory.events.
std::optional<std::uint64_t> keyed_number(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return parse_decimal(line.substr(key.size() + 1));
  }
  return std::nullopt;
}

// The group's own directory first, then those that its processes made below it.
std::vector<std::string> tree_of(const std::string& path) {
  std::vector<std::string> tree{path};
  std::error_code error;
  auto entry = std::filesystem::recursive_directory_iterator(path, error);
  for (; !error && entry != std::filesystem::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code gone;
    if (entry->is_directory(gone)) tree.push_back(entry->path().native());
  }
  return tree;
}

std::vector<pid_t> processes_in(const std::string& tree_root) {
  std::vector<pid_t> pids;
  for (const std::string& path : tree_of(tree_root)) {
    const auto text = read_file(path + "/cgroup.procs", kProcessListBytesMax);
    if (!text) continue;
    for (const std::string_view line : split(*text, '\n')) {
      // 0 stands for a process of a pid namespace that this one cannot see.
      if (const auto pid = parse_decimal(line); pid && *pid > 0)
        pids.push_back(static_cast<pid_t>(*pid));
    }
  }
  return pids;
}

// Kills what is in the tree now; false when nothing was. A number can pass to a stranger between
// reading the list and the kill, so each is pinned by a pidfd and then looked up once more.
bool kill_listed(const std::string& tree_root) {
  std::vector<std::pair<pid_t, UniqueFd>> pinned;
  for (const pid_t pid : processes_in(tree_root)) {
    UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd) pinned.emplace_back(pid, std::move(pidfd));
  }
  if (pinned.empty()) return !processes_in(tree_root).empty();
  std::vector<pid_t> still_there = processes_in(tree_root);
  std::ranges::sort(still_there);
  for (const auto& [pid, pidfd] : pinned) {
    if (std::ranges::binary_search(still_there, pid))
      syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  }
  return true;
}

// Children before parents. EBUSY while processes of it are still dying.
bool remove_tree(const std::string& path) {
  // Mostly nobody made a group below it.
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return true;
  std::vector<std::string> tree = tree_of(path);
  for (const std::string& directory : tree | std::views::reverse) {
    if (rmdir(directory.c_str()) != 0 && errno != ENOENT) return false;
  }
  return true;
}

}  // namespace

Cgroup& Cgroup::operator=(Cgroup&& other) noexcept {
  Cgroup incoming(std::move(other));
  std::swap(version_, incoming.version_);
  std::swap(name_, incoming.name_);
  std::swap(directories_, incoming.directories_);
  return *this;
}

Cgroup::~Cgroup() {
  if (directories_.empty()) return;
  if (const auto destroyed = destroy(); !destroyed)
    LOG_ERROR("a control group is left behind", {"error", destroyed.error()});
}

int Cgroup::directory_fd() const {
  return version_ == 2 ? directories_.front().fd.get() : -1;
}

const Cgroup::Directory* Cgroup::find_directory(std::string_view controller) const {
  for (const Directory& directory : directories_) {
    if (version_ == 2 ||
        std::ranges::find(directory.controllers, controller) != directory.controllers.end())
      return &directory;
  }
  return nullptr;
}

Result<void> Cgroup::write_value(std::string_view controller, const char* file,
                                 const std::string& value) const {
  const Directory* directory = find_directory(controller);
  const UniqueFd fd(directory == nullptr ? -1
                                         : openat(directory->fd.get(), file, O_WRONLY | O_CLOEXEC));
  if (!fd && (directory == nullptr || errno == ENOENT))
    return make_error(ErrorCode::kUnsupported, "set control group value",
                      fmt::format("{}: the {} controller is not available for group {}", file,
                                  controller, name_));
  if (!fd || write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    return os_error("set control group value",
                    fmt::format("{}/{} to {}", directory->path, file, value));
  return {};
}

std::optional<std::string> Cgroup::find_value(std::string_view controller, const char* file) const {
  const Directory* directory = find_directory(controller);
  if (directory == nullptr) return std::nullopt;
  auto text = read_file(fmt::format("{}/{}", directory->path, file));
  if (!text) return std::nullopt;
  return std::string(trim(*text));
}

std::optional<std::uint64_t> Cgroup::find_number(std::string_view controller,
                                                 const char* file) const {
  const auto text = find_value(controller, file);
  return text ? parse_decimal(*text) : std::nullopt;
}

Result<void> Cgroup::join(pid_t pid) {
  // A thread that moves itself needs no lock over all processes of the machine; taking that lock
  // waits for an RCU grace period, ten milliseconds and more. A caller that says 0 has one thread.
  const char* const file = version_ == 1 && pid == 0 ? "tasks" : "cgroup.procs";
  for (const Directory& directory : directories_) {
    const UniqueFd fd(openat(directory.fd.get(), file, O_WRONLY | O_CLOEXEC));
    const std::string text = std::to_string(pid);
    if (!fd || write(fd.get(), text.data(), text.size()) < 0)
      return os_error("join control group", fmt::format("process {}, {}", pid, directory.path));
  }
  return {};
}

Result<void> Cgroup::join_memory() {
  if (!is_frozen() && version_ == 2) return join(0);
  const Directory* memory = find_directory("memory");
  if (version_ == 2 || memory == nullptr || memory == find_directory("freezer"))
    return make_error(ErrorCode::kUnsupported, "join control group",
                      "memory alone, of a group that is frozen");
  const UniqueFd fd(openat(memory->fd.get(), "tasks", O_WRONLY | O_CLOEXEC));
  if (!fd || write(fd.get(), "0", 1) < 0) return os_error("join control group", memory->path);
  return {};
}

// Version 1 limits memory and memory plus swap, and at no moment may the first exceed the second.
Result<void> Cgroup::set_memory_v1(const CgroupLimits& limits) {
  constexpr const char* kMemory = "memory.limit_in_bytes";
  constexpr const char* kBoth = "memory.memsw.limit_in_bytes";
  if (!limits.swap_bytes) {
    if (!limits.memory_bytes) return {};
    return write_value("memory", kMemory, std::to_string(*limits.memory_bytes));
  }
  const auto memory = limits.memory_bytes ? limits.memory_bytes : find_number("memory", kMemory);
  if (!memory || *memory + *limits.swap_bytes < *memory)
    return make_error(ErrorCode::kInvalid, "set control group value",
                      "a swap limit needs a memory limit");
  const std::string memory_text = std::to_string(*memory);
  const std::string both_text = std::to_string(*memory + *limits.swap_bytes);
  if (write_value("memory", kMemory, memory_text)) return write_value("memory", kBoth, both_text);
  TRY_VOID(write_value("memory", kBoth, both_text));
  return write_value("memory", kMemory, memory_text);
}

Result<void> Cgroup::set_limits(const CgroupLimits& limits) {
  if (version_ == 1) {
    TRY_VOID(set_memory_v1(limits));
  } else {
    if (limits.memory_bytes)
      TRY_VOID(write_value("memory", "memory.max", std::to_string(*limits.memory_bytes)));
    if (limits.swap_bytes)
      TRY_VOID(write_value("memory", "memory.swap.max", std::to_string(*limits.swap_bytes)));
  }
  if (limits.pids) TRY_VOID(write_value("pids", "pids.max", std::to_string(*limits.pids)));
  if (!limits.cpu_percent) return {};
  const std::uint64_t quota_usec = *limits.cpu_percent * kCpuPeriodUsec / 100;
  if (version_ == 2)
    return write_value("cpu", "cpu.max", fmt::format("{} {}", quota_usec, kCpuPeriodUsec));
  TRY_VOID(write_value("cpu", "cpu.cfs_period_us", std::to_string(kCpuPeriodUsec)));
  return write_value("cpu", "cpu.cfs_quota_us", std::to_string(quota_usec));
}

CgroupUsage Cgroup::usage() const {
  const auto keyed = [&](std::string_view controller, const char* file, std::string_view key) {
    const auto text = find_value(controller, file);
    return text ? keyed_number(*text, key) : std::nullopt;
  };
  if (version_ == 2)
    return {.memory_bytes = find_number("memory", "memory.current"),
            .memory_cache_bytes = keyed("memory", "memory.stat", "file"),
            .memory_peak_bytes = find_number("memory", "memory.peak"),
            .cpu_usec = keyed("cpu", "cpu.stat", "usage_usec"),
            .pids = process_count(),
            .oom_kills = keyed("memory", "memory.events", "oom_kill"),
            .pids_refused = keyed("pids", "pids.events", "max")};
  auto cpu_nanoseconds = find_number("cpuacct", "cpuacct.usage");
  return {.memory_bytes = find_number("memory", "memory.usage_in_bytes"),
          .memory_cache_bytes = keyed("memory", "memory.stat", "total_cache"),
          .memory_peak_bytes = find_number("memory", "memory.max_usage_in_bytes"),
          .cpu_usec = cpu_nanoseconds.transform([](std::uint64_t n) { return n / 1000; }),
          .pids = process_count(),
          .oom_kills = keyed("memory", "memory.oom_control", "oom_kill"),
          .pids_refused = keyed("pids", "pids.events", "max")};
}

std::optional<std::uint64_t> Cgroup::process_count() const {
  return find_number("pids", "pids.current");
}

// The request returns before the last process has stopped.
Result<void> Cgroup::await_freezer(std::string_view wanted) const {
  const auto deadline = Clock::now() + kFreezeDeadline;
  // Mostly it has happened already, or happens within microseconds.
  for (std::chrono::microseconds pause(10);; pause = std::min(2 * pause, kFreezePauseMax)) {
    const auto state =
        version_ == 2 ? find_value("", "cgroup.events") : find_value("freezer", "freezer.state");
    if (state && (version_ == 2 ? state->find(wanted) != std::string::npos : *state == wanted))
      return {};
    if (Clock::now() >= deadline) return os_error("freeze control group", name_, ETIMEDOUT);
    std::this_thread::sleep_for(pause);
  }
}

Result<void> Cgroup::freeze() {
  TRY_VOID(version_ == 2 ? write_value("freezer", "cgroup.freeze", "1")
                         : write_value("freezer", "freezer.state", "FROZEN"));
  auto frozen = await_freezer(version_ == 2 ? "frozen 1" : "FROZEN");
  // Half frozen it would neither run nor die. It is not waited for once more.
  if (!frozen)
    (void)(version_ == 2 ? write_value("freezer", "cgroup.freeze", "0")
                         : write_value("freezer", "freezer.state", "THAWED"));
  return frozen;
}

bool Cgroup::is_frozen() const {
  const auto state =
      version_ == 2 ? find_value("", "cgroup.freeze") : find_value("freezer", "freezer.state");
  return state && *state != (version_ == 2 ? "0" : "THAWED");
}

Result<void> Cgroup::thaw() {
  TRY_VOID(version_ == 2 ? write_value("freezer", "cgroup.freeze", "0")
                         : write_value("freezer", "freezer.state", "THAWED"));
  return await_freezer(version_ == 2 ? "frozen 0" : "THAWED");
}

Result<void> Cgroup::kill_all(KillMethod method) {
  if (method == KillMethod::kAutomatic && version_ == 2) {
    auto killed = write_value("", "cgroup.kill", "1");
    if (killed || killed.error().code != ErrorCode::kUnsupported) return killed;
  }
  return kill_one_by_one();
}

// Frozen processes cannot fork faster than they are killed; version 1 lets a killed one die only
// after it is thawed. Without a freezer the rounds go on until none is left.
Result<void> Cgroup::kill_one_by_one() {
  const auto deadline = Clock::now() + kKillDeadline;
  do {
    const bool frozen = freeze().has_value();
    bool found = false;
    for (const Directory& directory : directories_) found |= kill_listed(directory.path);
    // Also after a freeze that timed out: a half-frozen group would never die.
    const auto thawed = thaw();
    if (!found) return {};
    if (frozen && !thawed) return thawed;
    std::this_thread::sleep_for(milliseconds(1));
  } while (Clock::now() < deadline);
  return make_error(ErrorCode::kTimeout, "kill control group", name_ + " still has processes");
}

std::vector<std::string> Cgroup::give_up() && {
  std::vector<std::string> paths;
  for (Directory& directory : directories_) paths.push_back(std::move(directory.path));
  directories_.clear();
  return paths;
}

Result<void> Cgroup::destroy() {
  const auto deadline = Clock::now() + kDestroyDeadline;
  milliseconds pause(1);
  const auto remove_empty = [&] {
    std::erase_if(directories_, [](const Directory& group) { return remove_tree(group.path); });
    return directories_.empty();
  };
  // Mostly nobody is left in it, and then there is nobody to look for.
  if (remove_empty()) return {};
  for (;;) {
    const auto killed = kill_all();
    if (remove_empty()) return {};
    if (Clock::now() >= deadline) {
      Error error = make_error(ErrorCode::kTimeout, "remove control group",
                               fmt::format("{} is still in use", directories_.front().path));
      if (!killed) error.message += "; " + killed.error().describe();
      directories_.clear();
      return error;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(20));
  }
}

}  // namespace pons::linux
