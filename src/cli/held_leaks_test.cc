#include "held_leaks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace pons::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr pid_t kSupervisor = 10, kSpawner = 11, kWarden = 12, kUndertaker = 13, kCopier = 14;
constexpr const char* kKnown = "00000000000000aa";
constexpr const char* kUnknown = "00000000deadbeef";

// A /proc with what the functions read.
class HeldLeaksTest : public ::testing::Test {
 protected:
  HeldLeaksTest() {
    char name[] = "/tmp/pons-held-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    proc_ = name;
    for (const pid_t pid : {kSupervisor, kSpawner, kWarden, kUndertaker, kCopier}) {
      fs::create_directories(at(pid, "fd"));
      fs::create_directories(at(pid, "ns"));
      for (const char* kind : {"user", "net", "mnt"})
        fs::create_symlink(fmt::format("{}:[{}]", kind, pid), at(pid, "ns/") + kind);
    }
    fs::create_directories(at(kSpawner, fmt::format("task/{}", kSpawner)));
    write(at(kSpawner, fmt::format("task/{}/children", kSpawner)),
          fmt::format("{} {} ", kCopier, kUndertaker));
    write(at(kUndertaker, "comm"), "undertaker\n");
    write(at(kCopier, "comm"), "pons\n");
  }

  ~HeldLeaksTest() override { fs::remove_all(proc_); }

  std::string at(pid_t pid, const std::string& name) const {
    return fmt::format("{}/{}/{}", proc_.string(), pid, name);
  }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  void hold(pid_t pid, int number, const std::string& target) const {
    fs::create_symlink(target, at(pid, fmt::format("fd/{}", number)));
  }
  void keep(const std::string& name, int number, const std::string& target,
            const std::string& role = "spawner") {
    hold(kSupervisor, number, target);
    kept_.push_back({role, name, number, ""});
  }
  Held read() const {
    return read_held(
        {.proc = proc_.string(), .spawner_dir = "/state/spawner", .group_prefix = "pons-1f-"},
        {{"supervisor", kSupervisor}, {"warden", kWarden}, {"brain", 0}, {"spawner", kSpawner}},
        kept_);
  }
  Leaks leaks() const { return leaks_beside(read(), {kKnown}); }

  fs::path proc_;
  std::vector<KeptDescriptor> kept_;
};

MATCHER_P2(IsLeak, kind, what, "") {
  return arg.kind == kind && arg.what == what && !arg.fix.empty();
}

TEST_F(HeldLeaksTest, WhatIsKeptForAKnownSandboxIsNone) {
  keep(fmt::format("{}.3.net", kKnown), 20, "net:[77]");
  keep(fmt::format("{}.tcp", kKnown), 21, "socket:[5]", "egress");
  keep("environments", 22, "/memfd:record (deleted)", "egress");
  hold(kSpawner, 20, "net:[77]");
  EXPECT_THAT(leaks(), IsEmpty());
  EXPECT_THAT(count_surplus(nameless_namespaces(read()), {}), IsEmpty());
}

TEST_F(HeldLeaksTest, WhatIsKeptForAnUnknownOneIsNamed) {
  keep(fmt::format("{}.3.net", kUnknown), 20, "net:[77]");
  keep(fmt::format("{}.3.store", kUnknown), 21, "/");
  keep(fmt::format("{}.tcp", kUnknown), 22, "socket:[5]", "egress");
  keep(fmt::format("{}.listener", kUnknown), 23, "socket:[6]", "gateway");  // not of a sandbox
  EXPECT_THAT(
      leaks(),
      ElementsAre(IsLeak("namespace", "00000000deadbeef.3.net (net:[77]), kept for spawner"),
                  IsLeak("descriptor", "00000000deadbeef.3.store (/), kept for spawner"),
                  IsLeak("descriptor", "00000000deadbeef.tcp (socket:[5]), kept for egress")));
}

TEST_F(HeldLeaksTest, NobodyButTheSpawnerHoldsNamespacesUnderNoName) {
  hold(kSupervisor, 7, "mnt:[70]");
  hold(kWarden, 8, "net:[71]");
  hold(kWarden, 9, fmt::format("net:[{}]", kWarden));  // where it lives
  hold(kUndertaker, 5, "user:[72]");
  hold(kCopier, 5, "user:[73]");  // as its parent had it
  EXPECT_THAT(leaks(),
              ElementsAre(IsLeak("namespace", "mnt:[70], descriptor 7 of supervisor (10)"),
                          IsLeak("namespace", "net:[71], descriptor 8 of warden (12)"),
                          IsLeak("namespace", "user:[72], descriptor 5 of undertaker (13)")));
}

TEST_F(HeldLeaksTest, TheSpawnerHasAsManyNamespacesWithoutASandboxAsAreReady) {
  keep(fmt::format("{}.3.net", kKnown), 20, "net:[77]");
  for (const int number : {77, 78, 79, kSpawner})
    hold(kSpawner, number, fmt::format("net:[{}]", number));
  hold(kSpawner, 80, "net:[79]");  // the same once more
  hold(kSpawner, 90, "user:[90]");
  const Namespaces nameless = nameless_namespaces(read());
  EXPECT_EQ(nameless, (Namespaces{{"net", {"net:[78]", "net:[79]"}}, {"user", {"user:[90]"}}}));
  EXPECT_THAT(count_surplus(nameless, {{"net", 2}, {"user", 1}}), IsEmpty());
  const NamespaceCounts surplus = count_surplus(nameless, {{"net", 1}, {"user", 1}});
  EXPECT_EQ(surplus, (NamespaceCounts{{"net", 1}}));
  EXPECT_THAT(name_surplus(surplus, kSpawner),
              ElementsAre(IsLeak("namespace",
                                 "1 of kind net in the spawner (11), neither of a sandbox nor "
                                 "ready for the next ones")));
}

TEST_F(HeldLeaksTest, ControlGroupsOfUnknownSandboxesAreNotHeldOpen) {
  hold(kSpawner, 20, fmt::format("/sys/fs/cgroup/cpu/pons-1f-{}", kKnown));
  hold(kSpawner, 21, fmt::format("/sys/fs/cgroup/cpu/pons-1f-{} (deleted)", kUnknown));
  hold(kSpawner, 22, fmt::format("/sys/fs/cgroup/cpu/pons-2f-{}", kUnknown));  // another Pons'
  EXPECT_THAT(leaks(),
              ElementsAre(IsLeak("descriptor",
                                 "21 of spawner (11): "
                                 "/sys/fs/cgroup/cpu/pons-1f-00000000deadbeef (deleted)")));
}

TEST_F(HeldLeaksTest, MountsInTheSpawnersTableBelongToASandboxOrToAForkOfIt) {
  keep(fmt::format("{}.3.borrowed.{}.4", kKnown, "00000000000000bb"), 20, "/");
  const std::string line = "1 2 0:3 / /state/spawner/{} rw,relatime shared:1 - tmpfs {} rw\n";
  std::string table = "1 2 0:3 / /state/spawner/stage ro - tmpfs none rw\nshort line\n";
  for (const std::string place :
       {"stores/00000000000000aa", "stores/00000000000000aa-00000000deadbeef",
        "stores/00000000000000bb", "stores/00000000deadbeef", "stores/with\\040blank"})
    table += fmt::format(fmt::runtime(line), place, "none");
  table += fmt::format(fmt::runtime(line), "root", "view-2");
  write(at(kSpawner, "mountinfo"), table);
  EXPECT_THAT(
      leaks(),
      ElementsAre(IsLeak("mount", "/state/spawner/stores/00000000deadbeef of the spawner (11)"),
                  IsLeak("mount", "/state/spawner/stores/with blank of the spawner (11)"),
                  IsLeak("mount", "/state/spawner/root of the spawner (11)")));
}

TEST_F(HeldLeaksTest, RolesThatEndMeanwhileHoldNothing) {
  fs::remove_all(proc_);
  kept_.push_back({"spawner", fmt::format("{}.3.net", kUnknown), 20, ""});
  EXPECT_THAT(leaks(), ElementsAre(AllOf(
                           ::testing::Field(&Leak::kind, "descriptor"),
                           ::testing::Field(&Leak::what, HasSubstr("00000000deadbeef.3.net")))));
}

}  // namespace
}  // namespace pons::cli
