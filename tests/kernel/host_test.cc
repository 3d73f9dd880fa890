#include "pons/linux/host.h"

#include <sys/prctl.h>

#include "forked.h"
#include "pons/linux/capabilities.h"
#include "pons/linux/fd.h"
#include "pons/linux/landlock.h"
#include "pons/linux/mount.h"
#include "pons/linux/namespace.h"

namespace pons::linux {
namespace {

TEST(HostTest, FindsWhatThisHostHasAndChangesNothing) {
  const auto mounts_before = *read_file("/proc/self/mountinfo");
  const auto net_before = NamespaceFd::open_current(NamespaceKind::kNet)->id();
  const HostFeatures features = probe_host();
  EXPECT_TRUE(features.kernel_release.starts_with(std::to_string(features.kernel_major) + "." +
                                                  std::to_string(features.kernel_minor)));
  EXPECT_GT(features.cgroup_version, 0);
  EXPECT_FALSE(features.cgroup_controllers.empty());
  EXPECT_TRUE(features.user_namespaces);
  EXPECT_EQ(features.landlock_abi, landlock_abi());
  EXPECT_TRUE(features.seccomp);
  EXPECT_TRUE(features.nftables);
  EXPECT_TRUE(features.overlayfs);
  EXPECT_EQ(features.detached_layers, overlay_takes_detached_layers());
  EXPECT_TRUE(features.idmapped_tmpfs);
  EXPECT_TRUE(features.cgroups_writable);
  EXPECT_TRUE(features.nested_user_namespaces);
  EXPECT_EQ(features.kvm, access("/dev/kvm", R_OK | W_OK) == 0);
  EXPECT_EQ(*read_file("/proc/self/mountinfo"), mounts_before);
  EXPECT_EQ(NamespaceFd::open_current(NamespaceKind::kNet)->id(), net_before);
}

TEST(HostTest, WorksWithoutPrivileges) {
  EXPECT_EQ(in_forked_child([] {
              REQUIRE(become_user(65534, 65534));
              // Changing users made it undumpable, and then /proc/self belongs to root.
              REQUIRE(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
              const HostFeatures features = probe_host();
              REQUIRE(features.user_namespaces);
              REQUIRE(features.nftables);
              REQUIRE(features.overlayfs);
              REQUIRE(features.nested_user_namespaces);
              REQUIRE(!features.idmapped_tmpfs);
              REQUIRE(!features.cgroups_writable);
              REQUIRE(!features.kvm);  // the device is for root and its group
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace pons::linux
