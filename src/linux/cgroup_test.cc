#include "pons/linux/cgroup.h"

#include "fake_cgroups.h"

namespace pons::linux {
namespace {

TEST_F(FakeCgroupTest, Version2FilesAreWrittenAndRead) {
  for (const char* file : {"memory.max", "memory.swap.max", "pids.max", "cpu.max"})
    put(std::string("g/") + file, "");
  put("g/cgroup.procs", "");
  put("g/memory.current", "4096\n");
  put("g/memory.peak", "8192\n");
  put("g/memory.stat", "anon 1000\nfile_mapped 7\nfile 2048\nkernel 3\n");
  put("g/memory.events", "low 0\nhigh 1\noom 3\noom_kill 2\noom_group_kill 9\n");
  put("g/cpu.stat", "usage_usec 123456\nuser_usec 1\n");
  put("g/pids.current", "max\n");  // not a number
  auto group = *CgroupHierarchy::from_mounts(2, {{root_, {}}}).adopt("g");
  ASSERT_TRUE(
      group.set_limits({.memory_bytes = 1000, .swap_bytes = 0, .pids = 64, .cpu_percent = 150}));
  EXPECT_EQ(get("g/memory.max"), "1000");
  EXPECT_EQ(get("g/memory.swap.max"), "0");
  EXPECT_EQ(get("g/pids.max"), "64");
  EXPECT_EQ(get("g/cpu.max"), "150000 100000");
  const CgroupUsage usage = group.usage();
  EXPECT_EQ(usage.memory_bytes, 4096U);
  EXPECT_EQ(usage.memory_cache_bytes, 2048U);
  EXPECT_EQ(usage.memory_peak_bytes, 8192U);
  EXPECT_EQ(usage.oom_kills, 2U);
  EXPECT_EQ(usage.cpu_usec, 123456U);
  EXPECT_EQ(usage.pids, std::nullopt);
  fs::remove(root_ + "/g/memory.swap.max");
  EXPECT_EQ(group.set_limits({.swap_bytes = 0}).error().code, ErrorCode::kUnsupported);
  empty("g");
  EXPECT_TRUE(group.destroy());
  EXPECT_FALSE(fs::exists(root_ + "/g"));
}

TEST_F(FakeCgroupTest, Version2ControllersAreEnabledForTheChildren) {
  put("cgroup.subtree_control", "");
  const auto hierarchy = CgroupHierarchy::from_mounts(2, {{root_, {"cpuset", "pids"}}});
  EXPECT_TRUE(hierarchy.create("g", {}));
  EXPECT_EQ(get("cgroup.subtree_control"), "+pids");
  put("cgroup.subtree_control", "pids");
  EXPECT_TRUE(CgroupHierarchy::from_mounts(2, {{root_, {"io", "pids"}}}).create("g", {}));
  EXPECT_EQ(get("cgroup.subtree_control").substr(0, 3), "+io");
}

std::string mount_line(const std::string& directory, const char* type, const char* options,
                       const char* root = "/") {
  return std::string("30 20 0:25 ") + root + " " + directory + " rw,nosuid shared:4 - " + type +
         " cgroup rw," + options + "\n";
}

TEST_F(FakeCgroupTest, AHostWithVersion2IsRecognised) {
  put("system.slice/pons.service/cgroup.controllers", "cpuset cpu io memory pids\n");
  const auto found = CgroupHierarchy::detect_from(
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mount_line(root_, "cgroup2", "nsdelegate"),
      "0::/system.slice/pons.service\n");
  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_EQ(found->version(), 2);
  EXPECT_EQ(found->controllers(),
            (std::vector<std::string>{"cpuset", "cpu", "io", "memory", "pids"}));
  EXPECT_TRUE(found->create("g", {}));
  put("system.slice/pons.service/pons-old/x", "");
  EXPECT_EQ(*found->find_names("pons-"), std::vector<std::string>{"pons-old"});
}

TEST_F(FakeCgroupTest, AMountThatShowsOnlyAPartIsUnderstood) {
  put("inner/cgroup.controllers", "pids\n");
  put("cgroup.controllers", "memory\n");
  const std::string part = mount_line(root_, "cgroup2", "x", "/docker/ab");
  EXPECT_EQ(CgroupHierarchy::detect_from(part, "0::/docker/ab/inner\n")->controllers(),
            std::vector<std::string>{"pids"});
  for (const char* elsewhere :
       {"0::/docker/ab\n", "0::/docker/abc\n", "0::/../other\n", "0::/gone\n"})
    EXPECT_EQ(CgroupHierarchy::detect_from(part, elsewhere)->controllers(),
              std::vector<std::string>{"memory"})
        << elsewhere;
}

TEST_F(FakeCgroupTest, HybridHostsAreVersion1WithItsSharedMounts) {
  for (const char* directory : {"cpu/own", "memory/own", "unified", "systemd"})
    fs::create_directories(root_ + "/" + directory);
  const auto found =
      CgroupHierarchy::detect_from(mount_line(root_ + "/unified", "cgroup2", "x") +
                                       mount_line(root_ + "/cpu", "cgroup", "cpu,cpuacct") +
                                       mount_line(root_ + "/memory", "cgroup", "memory") +
                                       mount_line(root_ + "/systemd", "cgroup", "name=systemd"),
                                   "3:cpu,cpuacct:/own\n2:memory:/own\n1:name=systemd:/\n0::/\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->version(), 1);
  EXPECT_EQ(found->controllers(), (std::vector<std::string>{"cpu", "cpuacct", "memory"}));
  auto group = found->create("g", {});
  ASSERT_TRUE(group) << group.error().describe();
  EXPECT_TRUE(fs::is_directory(root_ + "/cpu/own/g"));
  EXPECT_TRUE(fs::is_directory(root_ + "/memory/own/g"));
  EXPECT_EQ(group->directory_fd(), -1);
}

TEST(CgroupDetection, NonsenseIsNoHierarchy) {
  for (const char* text : {"", "\n", " - ", "a b c - cgroup2", "1 2 3 / /x rw - cgroup2 c rw"})
    EXPECT_EQ(CgroupHierarchy::detect_from(text, "").error().code, ErrorCode::kUnsupported) << text;
  EXPECT_FALSE(CgroupHierarchy::detect_from("1 2 3 / /x rw - cgroup2 c rw", ":\n0:x\n"));
}

}  // namespace
}  // namespace pons::linux
