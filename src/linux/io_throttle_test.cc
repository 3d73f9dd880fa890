#include "pons/linux/io_throttle.h"

#include <sys/sysmacros.h>

#include "fake_cgroups.h"

namespace pons::linux {
namespace {

constexpr const char* kFilesV1[] = {
    "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device"};

class IoThrottleTest : public FakeCgroupTest {
 protected:
  void put_block_group(const std::string& directory) {
    for (const char* file : kFilesV1) put(directory + "/" + file, "");
  }
  Result<CgroupHierarchy> version_1(const std::string& own) {
    fs::create_directories(root_ + "/memory");
    const auto line = [&](const std::string& controller) {
      return "30 20 0:25 / " + root_ + "/" + controller + " rw - cgroup cgroup rw," + controller +
             "\n";
    };
    return CgroupHierarchy::detect_from(line("memory") + line("blkio"),
                                        "4:memory:/\n7:blkio:" + own + "\n");
  }
};

TEST_F(IoThrottleTest, Version2LimitsTheGroupAndLiftsWhatIsZero) {
  put("g/io.max", "");
  const auto hierarchy = CgroupHierarchy::from_mounts(2, {{root_, {"io"}}});
  const auto throttle = IoThrottle::find(hierarchy);
  ASSERT_TRUE(throttle);
  auto group = *hierarchy.adopt("g");
  ASSERT_TRUE(throttle->set(group, makedev(7, 3), {.write_bytes = 4096, .read_operations = 20}));
  EXPECT_EQ(get("g/io.max"), "7:3 rbps=max wbps=4096 riops=20 wiops=max");
  fs::remove(root_ + "/g/io.max");
  EXPECT_FALSE(throttle->set(group, makedev(7, 3), {.write_bytes = 4096}));
  EXPECT_TRUE(group.destroy());
}

TEST_F(IoThrottleTest, Version2WithoutTheControllerNamesIt) {
  const auto none = IoThrottle::find(CgroupHierarchy::from_mounts(2, {{root_, {"memory"}}}));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(none.error().os_error, EOPNOTSUPP);
  EXPECT_NE(none.error().message.find("io controller of cgroup v2"), std::string::npos);
}

TEST_F(IoThrottleTest, Version1LimitsTheDeviceInTheRootGroupAndInItsOwn) {
  put_block_group("blkio");
  put_block_group("blkio/own");
  put("blkio/cgroup.sane_behavior", "0\n");
  put("blkio/blkio.throttle.read_iops_device", "7:30 9\n");
  put("blkio/own/blkio.throttle.read_iops_device", "7:3 9\n");
  const auto hierarchy = version_1("/own");
  ASSERT_TRUE(hierarchy);
  const auto throttle = IoThrottle::find(*hierarchy);
  ASSERT_TRUE(throttle) << throttle.error().describe();
  auto group = *hierarchy->create("g", {});
  ASSERT_TRUE(throttle->set(group, makedev(7, 3), {.read_bytes = 1, .write_bytes = 2}));
  for (const std::string directory : {"blkio/", "blkio/own/"}) {
    EXPECT_EQ(get(directory + kFilesV1[0]), "7:3 1");
    EXPECT_EQ(get(directory + kFilesV1[1]), "7:3 2");
    EXPECT_EQ(get(directory + kFilesV1[3]), "");  // never limited: nothing to lift
  }
  EXPECT_EQ(get("blkio/blkio.throttle.read_iops_device"), "7:30 9\n");
  EXPECT_EQ(get("blkio/own/blkio.throttle.read_iops_device").substr(0, 5), "7:3 0");
}

TEST_F(IoThrottleTest, Version1WithoutTheRootGroupOfTheHostIsRefused) {
  const auto refusal = [&] { return IoThrottle::find(*version_1("/")).error(); };
  EXPECT_EQ(
      IoThrottle::find(CgroupHierarchy::from_mounts(1, {{root_, {"memory"}}})).error().os_error,
      ENODEV);
  put_block_group("blkio");
  EXPECT_EQ(refusal().os_error, EACCES);
  EXPECT_NE(refusal().message.find("blkio controller of cgroup v1"), std::string::npos);
  put("blkio/cgroup.sane_behavior", "0\n");
  EXPECT_TRUE(IoThrottle::find(*version_1("/")));
  fs::remove(root_ + "/blkio/blkio.throttle.write_iops_device");
  EXPECT_EQ(refusal().os_error, ENODEV);
  EXPECT_EQ(refusal().code, ErrorCode::kUnsupported);
}

TEST_F(IoThrottleTest, LimitsThatNobodyNeedsAreClearedAndOthersLeftAlone) {
  put_block_group("blkio");
  put("blkio/cgroup.sane_behavior", "0\n");
  put("blkio/blkio.throttle.read_bps_device", "7:1048575 4096\n");
  put("blkio/blkio.throttle.write_bps_device", "8:1048575 4096\n");
  IoThrottle::find(*version_1("/"))->clear_free_loop_devices();
  EXPECT_EQ(get("blkio/blkio.throttle.read_bps_device").substr(0, 11), "7:1048575 0");
  EXPECT_EQ(get("blkio/blkio.throttle.write_bps_device"), "8:1048575 4096\n");
}

}  // namespace
}  // namespace pons::linux
