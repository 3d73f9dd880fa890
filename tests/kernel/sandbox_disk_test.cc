// Sandboxes that keep what they write on disk.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include <fmt/format.h>

#include "sandbox_host.h"

namespace pons::spawner {
namespace {

using linux::in_forked_child;

#define SAME(actual, expected)                                                             \
  do {                                                                                     \
    const std::string got_ = (actual), want_ = (expected);                                 \
    if (got_ != want_) {                                                                   \
      std::fprintf(stderr, "line %d: got \"%s\", wanted \"%s\"\n", __LINE__, got_.c_str(), \
                   want_.c_str());                                                         \
      return 1;                                                                            \
    }                                                                                      \
  } while (false)

constexpr std::uint64_t kKey = 0xD15C;
constexpr std::uint64_t kMiB = 1 << 20;

Request on_disk(std::uint64_t key, std::uint64_t bytes = 512 * kMiB) {
  Request request = SandboxHost::request(RequestKind::kCreate, key);
  request.create.flags = kDiskUpper;
  request.create.limits.memory_bytes = 128 * kMiB;
  request.create.limits.disk_bytes = bytes;
  request.create.limits.disk_inodes = bytes / 16'384;
  return request;
}

// "/sys/block/loop3/loop/backing_file" of the device that the sandbox's disk is on.
std::string backing_of(const Sandbox& sandbox) {
  struct stat info{};
  fstat(sandbox.store->fd(), &info);
  return fmt::format("/sys/dev/block/{}:{}/loop/backing_file", major(info.st_dev),
                     minor(info.st_dev));
}

// The kernel frees the device a moment after its last user.
bool becomes_free(const std::string& backing, const std::string& image) {
  for (int i = 0; i < 1000; ++i) {
    if (linux::read_file(backing).value_or("") != image) return true;
    usleep(10'000);
  }
  return false;
}

int larger_than_memory() {
  SandboxHost host;
  const auto cell = host.create(on_disk(kKey));
  REQUIRE(cell);
  SAME(shell(*cell,
             "head -c 300M /dev/zero > big; stat -c %s big; df -k --output=size / | tail -1 | tr "
             "-d ' '"),
       "314572800\n524288\n");
  Values values{};
  REQUIRE(host.sandboxes().usage(kKey, values));
  REQUIRE(values[kDiskBytes] >= 300 * kMiB && values[kDiskBytes] <= 512 * kMiB);
  REQUIRE(values[kOomKills] == 0 || values[kOomKills] == ~0ULL);
  return 0;
}

TEST(SandboxDiskTest, HoldsMoreThanTheSandboxHasMemory) {
  EXPECT_EQ(in_forked_child(larger_than_memory), 0);
}

int filled() {
  SandboxHost host;
  const auto cell = host.create(on_disk(kKey, 64 * kMiB));
  REQUIRE(cell);
  SAME(shell(*cell,
             "head -c 100M /dev/zero > big 2> /dev/null || echo full; rm big; echo x > f; cat f"),
       "full\nx\n");
  SAME(shell(*cell,
             "mkdir d; cd d; perl -e 'for (1..10000) { open(F, q(>), $_) or last; close F }';"
             "test $(ls | wc -l) -lt 5000 && echo full; cd ..; rm -r d; echo y > f; cat f"),
       "full\ny\n");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  SAME(shell(*cell, "cat f"), "y\n");
  return 0;
}

TEST(SandboxDiskTest, AFullDiskOrNoInodeLeftIsAnErrorAndNobodysEnd) {
  EXPECT_EQ(in_forked_child(filled), 0);
}

int checkpoints() {
  SandboxHost host;
  const auto cell = host.create(on_disk(kKey));
  REQUIRE(cell);
  SAME(shell(*cell, "echo one > a; mkdir d; echo deep > d/f; sync a; echo $?"), "0\n");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  SAME(shell(*cell, "cat a; rm -r d; echo two > a; perl -e 'rename q(a), q(b)'; ls"), "one\nb\n");
  REQUIRE(host.switch_view(kKey, 2, {0}, true));
  SAME(shell(*cell, "cat a d/f"), "one\ndeep\n");
  Request fork = on_disk(kKey + 1);
  fork.view.layer_count = 1;
  fork.view.layers[0] = {.sandbox = kKey, .number = 0};
  const auto twin = host.create(fork);
  REQUIRE(twin);
  SAME(shell(*twin, "stat -c %U a; echo theirs > a; cat a d/f"), "user\ntheirs\ndeep\n");
  SAME(shell(*cell, "cat a"), "one\n");
  // A lender's disk stays as long as somebody stands on it, and no longer.
  const std::string backing = backing_of(*host.sandboxes().find(kKey));
  const std::string image = linux::read_file(backing).value_or("");
  REQUIRE(!image.empty());
  host.destroy(kKey);
  SAME(shell(*twin, "cat d/f; rm -r d; ls"), "deep\na\n");
  SAME(linux::read_file(backing).value_or(""), image);
  host.destroy(kKey + 1);
  REQUIRE(becomes_free(backing, image));
  return 0;
}

TEST(SandboxDiskTest, CheckpointsAndForksStandOnIt) {
  EXPECT_EQ(in_forked_child(checkpoints), 0);
}

int sizes() {
  SandboxHost host;
  const auto refusal = [&](const Request& request) {
    const auto made = host.sandboxes().create_sandbox(request);
    return made ? 0 : made.error().os_error;
  };
  REQUIRE(refusal(on_disk(kKey, kMiB)) == EINVAL);
  REQUIRE(refusal(on_disk(kKey, kDiskImageBytesMax * 2)) == EINVAL);
  Request crowded = on_disk(kKey);
  crowded.create.limits.disk_inodes = crowded.create.limits.disk_bytes / 1024;
  REQUIRE(refusal(crowded) == EINVAL);
  REQUIRE(host.create(on_disk(kKey, 64 * kMiB)));
  // Another memory limit alone leaves the disk as it is.
  REQUIRE(host.sandboxes().set_limits(on_disk(kKey, 64 * kMiB)));
  const auto smaller = host.sandboxes().set_limits(on_disk(kKey, 32 * kMiB));
  REQUIRE(!smaller && smaller.error().os_error == EINVAL);
  return 0;
}

TEST(SandboxDiskTest, ASizeItCannotHaveIsRefusedAndItNeverShrinks) {
  EXPECT_EQ(in_forked_child(sizes), 0);
}

// Growing takes CAP_SYS_RESOURCE, which some hosts keep from root: there the kernel's no is passed
// on, and the disk is as it was.
int grown() {
  SandboxHost host;
  const auto cell = host.create(on_disk(kKey, 64 * kMiB));
  REQUIRE(cell);
  const std::string look = "df -k --output=size / | tail -1 | tr -d ' '";
  SAME(shell(*cell, "echo kept > f; " + look), "65536\n");
  const auto larger = host.sandboxes().set_limits(on_disk(kKey, 1024 * kMiB));
  REQUIRE(larger || larger.error().os_error == EPERM);
  SAME(shell(*cell, "cat f; " + look), larger ? "kept\n1048576\n" : "kept\n65536\n");
  if (larger) SAME(shell(*cell, "head -c 200M /dev/zero > big; echo $?"), "0\n");
  return 0;
}

TEST(SandboxDiskTest, GrowsWhileItIsUsedOrSaysThatItMayNot) {
  EXPECT_EQ(in_forked_child(grown), 0);
}

int ended() {
  SandboxHost host;
  const std::string mounts = *linux::read_file("/proc/self/mountinfo");
  std::string backing, image;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(host.create(on_disk(kKey)));
    backing = backing_of(*host.sandboxes().find(kKey));
    image = linux::read_file(backing).value_or("");
    REQUIRE(image.find("(deleted)") != std::string::npos);
    host.destroy(kKey);
    REQUIRE(becomes_free(backing, image));
  }
  SAME(*linux::read_file("/proc/self/mountinfo"), mounts);
  // One empty image to copy from, and nobody's copy.
  namespace fs = std::filesystem;
  REQUIRE(std::distance(fs::directory_iterator("images"), fs::directory_iterator()) == 1);
  return 0;
}

TEST(SandboxDiskTest, LeavesNoDeviceFileOrMount) {
  EXPECT_EQ(in_forked_child(ended), 0);
}

// ---- how fast

constexpr std::uint64_t kSlow = 4 * kMiB;  // per second
// Of 12 MiB at that speed: 3 s, less what the kernel lets pass before it begins to count.
constexpr std::chrono::milliseconds kSlowTimeMin{1500};
const char* const kWriteDirectly = "dd if=/dev/zero of=f bs=1M count=12 oflag=direct 2>&1 | wc -l";
const char* const kWriteBuffered = "head -c 12M /dev/zero > g; echo $?";

Request slow_disk(std::uint64_t key) {
  Request request = on_disk(key, 256 * kMiB);
  request.create.limits.io_write_bytes = kSlow;
  return request;
}

std::chrono::milliseconds time_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begin);
}

enum class Offer : std::uint8_t { kThere, kRefusedWithReason, kWrong };

Offer find_offer(SandboxHost& host) {
  const auto made = host.sandboxes().create_sandbox(slow_disk(kKey + 9));
  if (made) {
    host.destroy(kKey + 9);
    return Offer::kThere;
  }
  const int said = made.error().os_error;
  const bool reason = said == EOPNOTSUPP || said == ENODEV || said == EACCES;
  return reason && made.error().step == Step::kIoLimits &&
                 host.sandboxes().find(kKey + 9) == nullptr
             ? Offer::kRefusedWithReason
             : Offer::kWrong;
}

#define NEED_IO_LIMITS(host)                                      \
  do {                                                            \
    const Offer offer_ = find_offer(host);                        \
    if (offer_ == Offer::kRefusedWithReason) {                    \
      std::fprintf(stderr, "this host offers no limits on io\n"); \
      return 0;                                                   \
    }                                                             \
    REQUIRE(offer_ == Offer::kThere);                             \
  } while (false)

int throttled() {
  SandboxHost host;
  NEED_IO_LIMITS(host);
  const auto cell = host.create(slow_disk(kKey));
  REQUIRE(cell);
  REQUIRE(time_of([&] { shell(*cell, kWriteDirectly); }) >= kSlowTimeMin);
  Values values{};
  REQUIRE(host.sandboxes().usage(kKey, values));
  REQUIRE(values[kIoWriteBytes] >= 12 * kMiB && values[kIoWriteBytes] < 64 * kMiB);
  REQUIRE(values[kIoWriteOperations] >= 12);
  // Written by the kernel later, and by nobody of the sandbox, it is no faster.
  SAME(shell(*cell, kWriteBuffered), "0\n");
  const linux::UniqueFd disk(
      openat(host.sandboxes().find(kKey)->store->fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(time_of([&] { syncfs(disk.get()); }) >= kSlowTimeMin);
  // Reading is not limited with it.
  SAME(shell(*cell, "dd if=f of=/dev/null bs=1M iflag=direct 2>&1 | tail -1 | cut -d' ' -f1"),
       fmt::format("{}\n", 12 * kMiB));
  REQUIRE(host.sandboxes().usage(kKey, values));
  REQUIRE(values[kIoReadBytes] >= 12 * kMiB);
  return 0;
}

TEST(SandboxDiskTest, IsWrittenNoFasterThanItsLimitByWhomeverAndThatIsCounted) {
  EXPECT_EQ(in_forked_child(throttled), 0);
}

int changed() {
  SandboxHost host;
  NEED_IO_LIMITS(host);
  Request request = on_disk(kKey, 256 * kMiB);
  const auto cell = host.create(request);
  REQUIRE(cell);
  SAME(shell(*cell, kWriteDirectly), "3\n");
  request.create.limits.io_read_operations = 16;
  REQUIRE(host.sandboxes().set_limits(request));
  // 48 single reads.
  const char* read = "dd if=f of=/dev/null bs=4k count=48 iflag=direct 2>&1 | wc -l";
  REQUIRE(time_of([&] { shell(*cell, read); }) >= kSlowTimeMin);
  // What waits is let go when the limit is lifted: this would take three minutes.
  cell::JobOptions options;
  options.argv = {"/bin/dd", "if=f", "of=/dev/null", "bs=4k", "iflag=direct"};
  REQUIRE(cell->start("reader", options).header.status == cell::Status::kDone);
  request.create.limits.io_read_operations = 0;
  REQUIRE(host.sandboxes().set_limits(request));
  const auto ended = cell->read_to_end("reader");
  REQUIRE(ended.status == cell::Status::kDone && ended.error.contains("3072+0 records in"));
  return 0;
}

TEST(SandboxDiskTest, LimitsOnIoCanBeSetAndLiftedWhileItRuns) {
  EXPECT_EQ(in_forked_child(changed), 0);
}

// Whether the host has limits for the device, which its next user would find there.
bool has_limits_left(const std::string& device) {
  for (const std::string& directory : linux::CgroupHierarchy::detect()->block_directories())
    for (const char* name : {"write_bps", "read_iops"})
      if (("\n" + linux::read_file(fmt::format("{}/blkio.throttle.{}_device", directory, name))
                      .value_or(""))
              .contains("\n" + device + " "))
        return true;
  return false;
}

int ended_while_slow() {
  SandboxHost host;
  NEED_IO_LIMITS(host);
  Request request = slow_disk(kKey);
  request.create.limits.io_write_bytes = kMiB;
  request.create.limits.io_read_operations = 16;
  const auto cell = host.create(request);
  REQUIRE(cell);
  const std::string backing = backing_of(*host.sandboxes().find(kKey));
  const std::string image = linux::read_file(backing).value_or("");
  const std::string device = backing.substr(15, backing.find("/loop/") - 15);
  REQUIRE(host.sandboxes().find(kKey)->cgroup->directory_fd() >= 0 || has_limits_left(device));
  // Processes that wait for the disk cannot be killed meanwhile.
  cell::JobOptions options;
  options.argv = {"/bin/sh", "-c", "head -c 100M /dev/zero > big; echo; sync big"};
  REQUIRE(cell->start("writer", options).header.status == cell::Status::kDone);
  REQUIRE(!cell->read_once("writer", 0, 0, 20'000).output.empty());
  host.destroy(kKey);
  REQUIRE(becomes_free(backing, image));
  REQUIRE(!has_limits_left(device));
  return 0;
}

TEST(SandboxDiskTest, EndsAtOnceHoweverSlowItIsAndLeavesNoLimitBehind) {
  EXPECT_EQ(in_forked_child(ended_while_slow), 0);
}

int refused() {
  SandboxHost host;
  Request request = slow_disk(kKey);
  request.create.flags = 0;
  request.create.limits.disk_bytes = 32 * kMiB;
  const auto made = host.sandboxes().create_sandbox(request);
  REQUIRE(!made && made.error().step == Step::kIoLimits && made.error().os_error == EINVAL);
  request.create.limits.io_write_bytes = 0;
  REQUIRE(host.create(request));
  request.create.limits.io_write_bytes = kSlow;
  REQUIRE(!host.sandboxes().set_limits(request));
  return 0;
}

TEST(SandboxDiskTest, WithoutADiskThereIsNoIoToLimit) {
  EXPECT_EQ(in_forked_child(refused), 0);
}

}  // namespace
}  // namespace pons::spawner
