#include "pons/linux/process.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "pons/linux/fd.h"
#include "pons/linux/notify.h"

namespace pons::linux {
namespace {

TEST(Process, KnowsItsMemoryAndName) {
  const auto resident = resident_bytes(getpid());
  const auto proportional = proportional_bytes(getpid());
  ASSERT_TRUE(resident) << resident.error().describe();
  ASSERT_TRUE(proportional) << proportional.error().describe();
  EXPECT_GT(*resident, 1U << 20);
  EXPECT_GT(*proportional, 1U << 20);
  EXPECT_EQ(process_name(getpid()), "linux_test");
}

TEST(Process, KnowsWhatItHasUsed) {
  const auto before = read_process_figures(getpid());
  ASSERT_TRUE(before) << before.error().describe();
  EXPECT_GT(before->resident_bytes, 1U << 20);
  EXPECT_GE(before->threads, 1U);
  EXPECT_GE(before->age.count(), 0);
  EXPECT_LT(before->age, std::chrono::hours(24));
  while (read_process_figures(getpid())->cpu <= before->cpu) {
  }
  EXPECT_EQ(read_process_figures(0).error().code, ErrorCode::kNotFound);
}

TEST(Process, AStrangeNumberIsAnError) {
  EXPECT_EQ(resident_bytes(0).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(proportional_bytes(0).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(process_name(0), "");
}

TEST(Process, LimitsAndFlagsAreReallySet) {
  EXPECT_EXIT(
      {
        const bool done = set_no_new_privileges() && set_undumpable() && disable_core_dumps() &&
                          raise_descriptor_limit();
        rlimit core{};
        rlimit files{};
        getrlimit(RLIMIT_CORE, &core);
        getrlimit(RLIMIT_NOFILE, &files);
        const bool set = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
                         prctl(PR_GET_DUMPABLE) == 0 && core.rlim_max == 0 &&
                         files.rlim_cur == files.rlim_max;
        _exit(done && set ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

class NotifyTest : public ::testing::Test {
 protected:
  // A service manager's socket under this name; '@' stands for the zero byte of abstract names.
  void listen_as(const std::string& name) {
    listener_ = UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
              0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  std::string received() {
    char text[256];
    const ssize_t got = recv(listener_.get(), text, sizeof text, 0);
    return got < 0 ? "" : std::string(text, static_cast<std::size_t>(got));
  }
  void TearDown() override { unsetenv("NOTIFY_SOCKET"); }
  UniqueFd listener_;
};

TEST_F(NotifyTest, ReachesAPathAndAnAbstractName) {
  const std::string path = "/tmp/pons-notify-" + std::to_string(getpid());
  listen_as(path);
  notify_supervisor("READY=1");
  EXPECT_EQ(received(), "READY=1");
  unlink(path.c_str());
  listen_as("@pons-notify-" + std::to_string(getpid()));
  notify_supervisor("STATUS=fine\nWATCHDOG=1");
  EXPECT_EQ(received(), "STATUS=fine\nWATCHDOG=1");
}

TEST_F(NotifyTest, SaysNothingWhenUnsetAndSurvivesNonsense) {
  listen_as("@pons-notify-" + std::to_string(getpid()));
  for (const std::string& value : {std::string(), std::string("relative"), std::string("/no/such"),
                                   "/" + std::string(300, 'x')}) {
    setenv("NOTIFY_SOCKET", value.c_str(), 1);
    notify_supervisor("READY=1");
  }
  unsetenv("NOTIFY_SOCKET");
  notify_supervisor("READY=1");
  EXPECT_EQ(received(), "");
}

}  // namespace
}  // namespace pons::linux
