#include "namespaces_fixture.h"

namespace pons::sandbox {
namespace {

class IoLimitsTest : public NamespacesTest {};

Limits slow_disk() {
  return {.disk_bytes = 64ULL << 20,
          .disk_upper = true,
          .io_read_bytes_per_second = 8ULL << 20,
          .io_write_bytes_per_second = 4ULL << 20,
          .io_read_operations_per_second = 200,
          .io_write_operations_per_second = 100};
}

// Of the latest request for a disk; the pool asks too.
spawner::SandboxLimits disk_limits(const std::vector<spawner::Request>& requests) {
  spawner::SandboxLimits latest;
  for (const auto& request : requests)
    if ((request.create.flags & spawner::kDiskUpper) != 0) latest = request.create.limits;
  return latest;
}

TEST_F(IoLimitsTest, LimitsOnIoReachTheSpawnerAndAreGivenBack) {
  create({.id = "slow", .limits = slow_disk()});
  const auto sent = disk_limits(host_.asked(RequestKind::kCreate));
  EXPECT_EQ(sent.io_read_bytes, 8ULL << 20);
  EXPECT_EQ(sent.io_write_bytes, 4ULL << 20);
  EXPECT_EQ(sent.io_read_operations, 200U);
  EXPECT_EQ(sent.io_write_operations, 100U);
  kill_warden();
  start_warden();
  EXPECT_EQ(must(provider_->inspect("slow")).limits, slow_disk());
}

TEST_F(IoLimitsTest, LimitsOnIoThatAreNotAskedForAreTheDefaultsAndAskingForNoneLiftsNothing) {
  kill_warden();
  settings_.defaults.io_write_bytes_per_second = 2ULL << 20;
  start_warden();
  Limits limits{.disk_bytes = 64ULL << 20, .disk_upper = true};
  create({.id = "disk", .limits = limits});
  EXPECT_EQ(disk_limits(host_.asked(RequestKind::kCreate)).io_write_bytes, 2ULL << 20);
  EXPECT_EQ(must(provider_->set_limits("disk", limits)).limits.io_write_bytes_per_second,
            2ULL << 20);
  EXPECT_EQ(host_.asked(RequestKind::kSetLimits).back().create.limits.io_write_bytes, 2ULL << 20);
  must(provider_->fork("disk", {.id = "child", .limits = limits}));
  EXPECT_EQ(disk_limits(host_.asked(RequestKind::kCreate)).io_write_bytes, 2ULL << 20);
  create({.id = "memory"});
  EXPECT_EQ(must(provider_->inspect("memory")).limits.io_write_bytes_per_second, 0U);
}

TEST_F(IoLimitsTest, LimitsOnIoThatCannotBeAreRefusedWithTheField) {
  const auto refusal = [&](auto change) {
    Limits limits = slow_disk();
    change(limits);
    const Error error = refused(provider_->create({.limits = limits}));
    EXPECT_EQ(error.code, ErrorCode::kInvalid);
    return error.message;
  };
  EXPECT_NE(refusal([](Limits& l) { l.disk_upper = false, l.disk_bytes = 0; }).find("disk_upper"),
            std::string::npos);
  EXPECT_NE(refusal([](Limits& l) {
              l.io_write_bytes_per_second = 1000;
            }).find("io_write_bytes_per_second"),
            std::string::npos);
  EXPECT_NE(refusal([](Limits& l) {
              l.io_read_operations_per_second = 1;
            }).find("io_read_operations_per_second"),
            std::string::npos);
  EXPECT_NE(refusal([](Limits& l) {
              l.io_read_bytes_per_second = ~0ULL;
            }).find("io_read_bytes_per_second"),
            std::string::npos);
}

TEST_F(IoLimitsTest, AHostThatCannotLimitIoIsToldWithTheControllerItLacks) {
  host_.create_step = spawner::Step::kIoLimits;
  for (const auto& [said, name] :
       {std::pair(EOPNOTSUPP, "io controller of cgroup v2"),
        std::pair(ENODEV, "blkio controller of cgroup v1"), std::pair(EACCES, "root group")}) {
    host_.create_error = said;
    const Error error = refused(provider_->create({.limits = slow_disk()}));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_NE(error.message.find(name), std::string::npos) << error.message;
  }
}

}  // namespace
}  // namespace pons::sandbox
