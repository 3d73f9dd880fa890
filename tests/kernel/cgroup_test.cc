#include "pons/linux/cgroup.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "forked.h"
#include "pons/base/clock.h"
#include "pons/base/id.h"
#include "pons/linux/child.h"

namespace pons::linux {
namespace {

using namespace std::chrono_literals;

const char* const kPrefix = "pons-kernel-test-";

std::string new_name() {
  return kPrefix + random_text(8);
}

// The v2 hierarchy of this host: the host's own on most, an empty one beside v1 on hybrid hosts.
std::string unified_directory() {
  for (const char* path : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
    if (std::filesystem::exists(std::string(path) + "/cgroup.controllers")) return path;
  }
  return {};
}

struct GatedChild {
  UniqueFd gate;
  ChildProcess process;
  void open_gate() { EXPECT_TRUE(write_all(gate.get(), "go\n")); }
  std::optional<ExitStatus> end() {
    return process.wait_until(std::chrono::steady_clock::now() + 10s);
  }
};

// A shell that begins the script only when the gate opens, so that nothing it starts can be outside
// of the group it was put into meanwhile.
GatedChild start(const std::string& script, int cgroup_fd = -1) {
  Pipe gate = *create_pipe();
  auto child = ChildProcess::spawn("/bin/sh", {.argv = {"sh", "-c", "read go; " + script},
                                               .environment = {"PATH=/usr/bin:/bin"},
                                               .descriptors = {{gate.read_end.get(), 0}},
                                               .cgroup_fd = cgroup_fd});
  EXPECT_TRUE(child) << child.error().describe();
  return {std::move(gate.write_end), std::move(*child)};
}

// Forks all the time, in sessions of their own, and ignores what can be ignored.
const char* const kForkForever =
    "trap '' TERM HUP INT; f() { while :; do (setsid sleep 1000 & sleep 0.01); done; }; f & f & f";

// Waits until the group has that many processes.
bool grows_to(const Cgroup& group, const std::vector<std::string>& paths, std::size_t count) {
  for (int wait = 0; wait < 10'000; ++wait) {
    for (const std::string& path : paths) {
      const auto text = read_file(path + "/" + group.name() + "/cgroup.procs");
      if (text && std::count(text->begin(), text->end(), '\n') >= static_cast<ssize_t>(count))
        return true;
    }
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

// Both versions keep the same promises.
class CgroupTest : public ::testing::TestWithParam<int> {
 protected:
  static CgroupHierarchy hierarchy() {
    if (GetParam() == 2) return CgroupHierarchy::from_mounts(2, {{unified_directory(), {}}});
    return *CgroupHierarchy::detect();
  }
  static std::vector<std::string> directories() {
    if (GetParam() == 2) return {unified_directory()};
    return {"/sys/fs/cgroup/pids", "/sys/fs/cgroup/freezer"};
  }
  void TearDown() override {
    const auto left = hierarchy().find_names(kPrefix);
    ASSERT_TRUE(left) << left.error().describe();
    EXPECT_TRUE(left->empty()) << left->front();
  }
};

TEST_P(CgroupTest, DestructionEndsAWholeTreeOfProcesses) {
  GatedChild first = start(kForkForever);
  GatedChild second = start(kForkForever);
  {
    auto group = hierarchy().create(new_name(), {});
    ASSERT_TRUE(group) << group.error().describe();
    for (GatedChild* child : {&first, &second}) {
      ASSERT_TRUE(group->join(child->process.pid()));
      child->open_gate();
    }
    ASSERT_TRUE(grows_to(*group, directories(), 50));
  }
  EXPECT_TRUE(hierarchy().find_names(kPrefix)->empty());
  for (GatedChild* child : {&first, &second}) {
    const auto status = child->end();
    ASSERT_TRUE(status);
    EXPECT_EQ(status->signal, SIGKILL);
  }
}

TEST_P(CgroupTest, OneByOneKillsAllAsWell) {
  auto group = *hierarchy().create(new_name(), {});
  GatedChild child = start(kForkForever);
  ASSERT_TRUE(group.join(child.process.pid()));
  child.open_gate();
  ASSERT_TRUE(grows_to(group, directories(), 50));
  const auto killed = group.kill_all(KillMethod::kOneByOne);
  ASSERT_TRUE(killed) << killed.error().describe();
  const auto status = child.end();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->signal, SIGKILL);
}

// A shared counter that a process in the group moves forward as fast as it can.
class Counter {
 public:
  Counter()
      : value_(new(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   std::atomic<std::uint64_t>(0)) {}
  ~Counter() { munmap(value_, 4096); }
  std::atomic<std::uint64_t>& value() { return *value_; }
  bool moves() {
    const std::uint64_t before = *value_;
    for (int wait = 0; wait < 2000 && *value_ == before; ++wait) std::this_thread::sleep_for(1ms);
    return *value_ != before;
  }

 private:
  std::atomic<std::uint64_t>* value_;
};

TEST_P(CgroupTest, FrozenMeansNoProgress) {
  Counter counter;
  auto group = *hierarchy().create(new_name(), {});
  const pid_t pid = fork();
  if (pid == 0) {
    for (;;) ++counter.value();
  }
  ASSERT_TRUE(group.join(pid));
  EXPECT_TRUE(counter.moves());
  ASSERT_TRUE(group.freeze());
  const std::uint64_t stopped_at = counter.value();
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(counter.value(), stopped_at);
  ASSERT_TRUE(group.thaw());
  EXPECT_TRUE(counter.moves());
  ASSERT_TRUE(group.freeze());
  EXPECT_TRUE(group.destroy()) << "a frozen group can be removed";
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_P(CgroupTest, NamesAreCheckedAndTakenOnce) {
  const std::string name = new_name();
  const auto group = hierarchy().create(name, {});
  ASSERT_TRUE(group);
  EXPECT_EQ(hierarchy().create(name, {}).error().code, ErrorCode::kConflict);
  EXPECT_EQ(*hierarchy().find_names(kPrefix), std::vector{name}) << "the loser removed nothing";
  for (const char* bad : {"", "..", "a/b", "../x", "a b"})
    EXPECT_EQ(hierarchy().create(bad, {}).error().code, ErrorCode::kInvalid) << bad;
  EXPECT_EQ(hierarchy().adopt("..").error().code, ErrorCode::kInvalid);
}

TEST_P(CgroupTest, WhatAFormerRunLeftCanBeAdoptedAndRemoved) {
  const std::string name = new_name();
  pid_t orphan = 0;
  Pipe pipe = *create_pipe();
  EXPECT_EQ(in_forked_child([&] {
              auto group = hierarchy().create(name, {});
              REQUIRE(group);
              const pid_t pid = fork();
              if (pid == 0) {
                setsid();
                for (;;) pause();
              }
              REQUIRE(group->join(pid));
              REQUIRE(write(pipe.write_end.get(), &pid, sizeof pid) == sizeof pid);
              _exit(0);  // without destructors, as after a crash
              return 0;
            }),
            0);
  ASSERT_EQ(read(pipe.read_end.get(), &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  ASSERT_EQ(*hierarchy().find_names(kPrefix), std::vector{name});
  EXPECT_EQ(kill(orphan, 0), 0);
  {
    const auto group = hierarchy().adopt(name);
    ASSERT_TRUE(group);
  }
  EXPECT_TRUE(hierarchy().find_names(kPrefix)->empty());
  EXPECT_EQ(hierarchy().adopt(name).error().code, ErrorCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(BothVersions, CgroupTest, ::testing::Values(1, 2));

TEST(CgroupV2Test, NestedGroupsGoToo) {
  const auto hierarchy = CgroupHierarchy::from_mounts(2, {{unified_directory(), {}}});
  for (const KillMethod method : {KillMethod::kAutomatic, KillMethod::kOneByOne}) {
    auto group = *hierarchy.create(new_name(), {});
    const std::string nested = unified_directory() + "/" + group.name() + "/nested";
    ASSERT_EQ(mkdir(nested.c_str(), 0755), 0);
    ASSERT_EQ(mkdir((nested + "/deeper").c_str(), 0755), 0);
    GatedChild child = start("sleep 1000");
    const UniqueFd procs = *open_file(nested + "/deeper/cgroup.procs", O_WRONLY);
    ASSERT_TRUE(write_all(procs.get(), std::to_string(child.process.pid())));
    ASSERT_TRUE(group.kill_all(method));
    EXPECT_TRUE(child.end().has_value());
    ASSERT_TRUE(group.destroy());
    EXPECT_FALSE(std::filesystem::exists(nested));
  }
}

TEST(CgroupV2Test, DelegatingMovesThisProcessBesideItsFutureGroups) {
  const auto outer = CgroupHierarchy::from_mounts(2, {{unified_directory(), {}}});
  const auto service = *outer.create(new_name(), {});
  const std::string directory = unified_directory() + "/" + service.name();
  EXPECT_EQ(
      in_forked_child([&] {
        auto inner = CgroupHierarchy::from_mounts(2, {{directory, {}}});
        REQUIRE(inner.delegate());
        REQUIRE(inner.delegate());  // again after a restart
        const std::string own = *read_file("/proc/self/cgroup");
        REQUIRE(own.contains(service.name() + "/pons-supervisor"));
        // From there it finds the same place as before.
        const std::string mounted = "1 2 0:3 / " + unified_directory() + " rw - cgroup2 x rw\n";
        const auto found = CgroupHierarchy::detect_from(mounted, own.substr(own.rfind("0::")));
        REQUIRE(found && found->version() == 2);
        REQUIRE(found->create("pons-kernel-test-inner", {}));
        REQUIRE(found->find_names("pons-").value().empty());
        return 0;
      }),
      0);
}

TEST(CgroupV2Test, AChildCanBeBornInside) {
  const auto hierarchy = CgroupHierarchy::from_mounts(2, {{unified_directory(), {}}});
  auto group = *hierarchy.create(new_name(), {});
  const GatedChild child = start("sleep 1000", group.directory_fd());
  const std::string own = *read_file("/proc/" + std::to_string(child.process.pid()) + "/cgroup");
  EXPECT_NE(own.find("0::/" + group.name()), std::string::npos) << own;
}

TEST(CgroupLimitTest, LimitsOfThisHostAreEnforcedAndCounted) {
  const auto hierarchy = *CgroupHierarchy::detect();
  auto group = hierarchy.create(
      new_name(), {.memory_bytes = 64 << 20, .swap_bytes = 0, .pids = 8, .cpu_percent = 50});
  ASSERT_TRUE(group) << group.error().describe();
  // Eight processes and no more.
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(group->join(getpid()));
              std::vector<pid_t> started;
              pid_t pid = 0;
              while (started.size() < 100 && (pid = fork()) > 0) started.push_back(pid);
              if (pid == 0)
                for (;;) pause();
              const int error = errno;
              for (const pid_t child : started) {
                kill(child, SIGKILL);
                waitpid(child, nullptr, 0);
              }
              REQUIRE(pid < 0 && error == EAGAIN && started.size() == 7);
              return 0;
            }),
            0);
  // A hundred megabytes do not fit.
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(group->join(getpid()));
              void* memory = mmap(nullptr, 100 << 20, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
              memset(memory, 1, 100 << 20);
              return 0;
            }),
            -SIGKILL);
  const CgroupUsage usage = group->usage();
  EXPECT_GE(usage.oom_kills.value_or(0), 1U);
  EXPECT_GT(usage.memory_peak_bytes.value_or(0), 32U << 20);
  EXPECT_LE(usage.memory_peak_bytes.value_or(0), 64U << 20);
  EXPECT_GT(usage.cpu_usec.value_or(0), 0U);
  EXPECT_EQ(usage.pids, 0U);
  EXPECT_GE(usage.pids_refused.value_or(0), 1U);
  // Up and down again: memory and memory plus swap are written in the order the kernel accepts.
  EXPECT_TRUE(group->set_limits({.memory_bytes = 128 << 20, .swap_bytes = 1 << 20}));
  EXPECT_TRUE(group->set_limits({.memory_bytes = 32 << 20, .swap_bytes = 0}));
  EXPECT_TRUE(group->set_limits({.swap_bytes = 4 << 20}));
}

std::chrono::nanoseconds read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// However busy the host is, nobody gets more than his share of it: half the time is five times what
// the limit allows.
TEST(CgroupLimitTest, WhoOnlyComputesGetsHisShareOfAProcessor) {
  auto group = CgroupHierarchy::detect()->create(new_name(), {.cpu_percent = 10});
  ASSERT_TRUE(group) << group.error().describe();
  const auto computes = [&] {
    REQUIRE(group->join(getpid()));
    const auto begun = read_clock(CLOCK_MONOTONIC);
    const auto used_before = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    while (read_clock(CLOCK_MONOTONIC) - begun < 1s) {
    }
    const auto took = read_clock(CLOCK_MONOTONIC) - begun;
    REQUIRE(2 * (read_clock(CLOCK_PROCESS_CPUTIME_ID) - used_before) < took);
    return 0;
  };
  EXPECT_EQ(in_forked_child(computes), 0);
}

TEST(CgroupLimitTest, ALimitWithoutItsControllerIsRefusedAndTheGroupRemoved) {
  ScratchDirectory scratch;  // a hierarchy whose groups have no control files at all
  for (const int version : {1, 2}) {
    const auto hierarchy = CgroupHierarchy::from_mounts(version, {{scratch.path(), {"pids"}}});
    const auto refused = hierarchy.create(new_name(), {.memory_bytes = 1 << 20});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_TRUE(hierarchy.find_names(kPrefix)->empty());
  }
}

}  // namespace
}  // namespace pons::linux
