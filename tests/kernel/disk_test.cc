#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "forked.h"
#include "pons/linux/capabilities.h"
#include "pons/linux/loop_image.h"
#include "pons/linux/mount.h"
#include "pons/linux/namespace.h"
#include "pons/linux/project_quota.h"

namespace pons::linux {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::string backing_of(const std::string& device) {
  return read_file("/sys/block/" + device.substr(5) + "/loop/backing_file").value_or("");
}

using Options = std::vector<std::pair<std::string, std::string>>;

TEST(LoopImageTest, AnImageIsSparseAndItsCopyTooAndHoldsWhatIsWritten) {
  ScratchDirectory scratch;
  ASSERT_TRUE(create_ext4_image(scratch / "empty", {.bytes = 256 * kMiB, .inodes = 4096}));
  ASSERT_TRUE(copy_image(scratch / "empty", scratch / "own"));
  struct stat status{};
  ASSERT_EQ(stat((scratch / "own").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(256 * kMiB));
  EXPECT_LT(status.st_blocks * 512, static_cast<off_t>(32 * kMiB));
  EXPECT_FALSE(copy_image(scratch / "empty", scratch / "own")) << "never over another's image";
  scratch.make_directory("view");
  EXPECT_EQ(in_forked_child([&] {
              REQUIRE(unshare_namespaces({NamespaceKind::kMount}));
              REQUIRE(make_mounts_private());
              auto loop = LoopImage::attach(scratch / "own");
              REQUIRE(loop);
              auto mounted =
                  DetachedMount::new_filesystem("ext4", Options{{"source", loop->device()}});
              REQUIRE(mounted);
              const UniqueFd file(openat(mounted->fd(), "file", O_CREAT | O_WRONLY, 0600));
              REQUIRE(file);
              const std::string block(kMiB, 'x');
              ssize_t wrote = 0;
              int blocks = 0;
              while ((wrote = write(file.get(), block.data(), block.size())) > 0) ++blocks;
              REQUIRE(wrote < 0 || blocks > 0);
              REQUIRE(blocks > 100 && blocks < 256);
              return 0;
            }),
            0);
}

TEST(LoopImageTest, TheDeviceIsFreeWhenItsOwnerIsGone) {
  ScratchDirectory scratch;
  ASSERT_TRUE(create_ext4_image(scratch / "image", {.bytes = 16 * kMiB, .inodes = 64}));
  std::string device;
  {
    const auto loop = LoopImage::attach(scratch / "image");
    ASSERT_TRUE(loop) << loop.error().describe();
    device = loop->device();
    EXPECT_NE(backing_of(device).find("image"), std::string::npos);
  }
  for (int i = 0; i < 500 && backing_of(device).find(scratch.path()) != std::string::npos; ++i)
    usleep(10'000);
  EXPECT_EQ(backing_of(device).find(scratch.path()), std::string::npos);
}

TEST(LoopImageTest, ALinkIsNotTakenForAnImage) {
  ScratchDirectory scratch;
  ASSERT_TRUE(create_ext4_image(scratch / "image", {.bytes = 16 * kMiB, .inodes = 64}));
  ASSERT_EQ(symlink((scratch / "image").c_str(), (scratch / "link").c_str()), 0);
  EXPECT_FALSE(LoopImage::attach(scratch / "link"));
  EXPECT_FALSE(copy_image(scratch / "link", scratch / "copy"));
  EXPECT_FALSE(create_ext4_image(scratch / "small", {.bytes = 1, .inodes = 64}));
}

TEST(ProjectQuotaTest, AFileSystemWithoutItSaysSo) {
  ScratchDirectory scratch;
  const auto directory = open_file(scratch.path(), O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(directory);
  const auto memory = DetachedMount::new_filesystem("tmpfs", Options{{"size", "1m"}});
  ASSERT_TRUE(memory);
  EXPECT_FALSE(has_project_quota(memory->fd()));
  EXPECT_FALSE(set_project(memory->fd(), 0));
  EXPECT_FALSE(set_project_limits(memory->fd(), 7, {.bytes = 0, .inodes = 0}));
}

// Some kernels are built without it, and this decides what the disk of a sandbox stands on: where
// the kernel mounts with project quotas the limit holds, and where it does not the probe says no.
TEST(ProjectQuotaTest, FillingAProjectEndsAtItsLimitOrTheProbeSaysNo) {
  ScratchDirectory scratch;
  ASSERT_TRUE(create_ext4_image(scratch / "image", {.bytes = 64 * kMiB, .inodes = 1024}));
  ASSERT_TRUE(copy_image(scratch / "image", scratch / "plain"));
  ASSERT_EQ(std::system(
                ("tune2fs -O project,quota -Q prjquota " + (scratch / "image") + " >/dev/null 2>&1")
                    .c_str()),
            0);
  EXPECT_EQ(in_forked_child([&] {
              auto loop = LoopImage::attach(scratch / "image");
              REQUIRE(loop);
              auto disk = DetachedMount::new_filesystem(
                  "ext4", Options{{"source", loop->device()}, {"prjquota", ""}});
              if (!disk) {
                auto plain = LoopImage::attach(scratch / "plain");
                REQUIRE(plain);
                const auto without =
                    DetachedMount::new_filesystem("ext4", Options{{"source", plain->device()}});
                REQUIRE(without);
                REQUIRE(!has_project_quota(without->fd()));
                REQUIRE(!set_project_limits(without->fd(), 7, {.bytes = kMiB, .inodes = 8}));
                return 0;
              }
              REQUIRE(has_project_quota(disk->fd()));
              REQUIRE(mkdirat(disk->fd(), "own", 0755) == 0);
              const UniqueFd own(openat(disk->fd(), "own", O_RDONLY | O_DIRECTORY));
              REQUIRE(set_project(own.get(), 4711));
              REQUIRE(set_project_limits(own.get(), 4711, {.bytes = 4 * kMiB, .inodes = 8}));
              // Root of the host passes quotas by CAP_SYS_RESOURCE; a sandbox has it not.
              REQUIRE(fchmod(own.get(), 0777) == 0 && become_user(1000, 1000));
              const UniqueFd file(openat(own.get(), "file", O_CREAT | O_WRONLY, 0600));
              REQUIRE(file);
              const std::string block(kMiB, 'x');
              int blocks = 0;
              while (write(file.get(), block.data(), block.size()) ==
                         static_cast<ssize_t>(block.size()) &&
                     blocks < 32)
                ++blocks;
              REQUIRE(blocks < 5);
              const auto usage = project_usage(own.get(), 4711);
              REQUIRE(usage && usage->bytes <= 4 * kMiB && usage->limits.inodes == 8);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace pons::linux
