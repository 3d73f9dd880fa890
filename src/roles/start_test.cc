#include "pons/roles/start.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace pons::roles {
namespace {

using linux::UniqueFd;

UniqueFd memory_file(std::string_view text) {
  UniqueFd file(memfd_create("start-test", MFD_CLOEXEC));
  EXPECT_TRUE(linux::write_all(file.get(), text));
  EXPECT_EQ(lseek(file.get(), 0, SEEK_SET), 0);
  return file;
}

// Runs `body` in a process that has `settings` and then `named` at their fixed numbers, as a role
// has. Returns what `body` returns.
int in_role(int settings, const std::vector<int>& named, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kAside = 100;
    std::vector<int> sources = {fcntl(settings, F_DUPFD, kAside)};
    for (const int descriptor : named) sources.push_back(fcntl(descriptor, F_DUPFD, kAside));
    int number = kStartDescriptor;
    for (const int source : sources) dup2(source, number++);
    _exit(body());
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

RoleStart sample_start() {
  RoleStart start;
  start.role = Role::kWarden;
  start.confinement = {
      .state_dir = "/srv/pons = x", .supervisor = 4242, .landlock = LandlockNeed::kBestEffort};
  start.log_level = LogLevel::kWarn;
  start.log_format = LogFormat::kHuman;
  start.log_color = true;
  start.drain_seconds = 77;
  start.values = {{"limit", "12"}, {"empty", ""}, {"formula", "a=b=c"}};
  // Put in by one order, named by another: the numbers follow the names.
  for (const char* name : {"keeper", "dial:spawner", "from:brain", "control", "dial:egress"})
    start.descriptors.emplace(name, memory_file(name));
  return start;
}

std::vector<int> numbers_of(const RoleStart& start) {
  std::vector<int> numbers;
  for (const auto& [name, descriptor] : start.descriptors) numbers.push_back(descriptor.get());
  return numbers;
}

TEST(RoleStartTest, ARoleReadsWhatTheSupervisorWrote) {
  const RoleStart written = sample_start();
  const auto settings = write_role_start(written);
  ASSERT_TRUE(settings);
  EXPECT_EQ(in_role(settings->get(), numbers_of(written),
                    [&] {
                      const auto read = read_role_start();
                      if (!read) return 1;
                      if (read->role != written.role) return 2;
                      if (read->confinement.state_dir != written.confinement.state_dir ||
                          read->confinement.supervisor != 4242 ||
                          read->confinement.landlock != LandlockNeed::kBestEffort)
                        return 3;
                      if (read->log_level != LogLevel::kWarn ||
                          read->log_format != LogFormat::kHuman || !read->log_color)
                        return 4;
                      return read->drain_seconds == 77 && read->values == written.values ? 0 : 5;
                    }),
            0);
}

TEST(RoleStartTest, EveryDescriptorArrivesUnderItsOwnName) {
  const RoleStart written = sample_start();
  const auto settings = write_role_start(written);
  ASSERT_TRUE(settings);
  EXPECT_EQ(in_role(settings->get(), numbers_of(written),
                    [&] {
                      auto read = read_role_start();
                      if (!read || read->descriptors.size() != 5) return 1;
                      for (const auto& [name, descriptor] : read->descriptors)
                        if (linux::read_all(descriptor.get(), 64).value_or("") != name) return 2;
                      const auto dialled = read->take_all("dial:");
                      if (dialled.size() != 2 || !dialled.contains("egress") ||
                          !dialled.contains("spawner"))
                        return 3;
                      if (!read->take("keeper") || read->descriptors.size() != 2) return 4;
                      return fcntl(kStartDescriptor, F_GETFD) == -1 ? 0 : 5;  // not left open
                    }),
            0);
}

TEST(RoleStartTest, TheSettingsCannotBeChangedOnTheWay) {
  const auto settings = write_role_start(sample_start());
  ASSERT_TRUE(settings);
  EXPECT_EQ(write(settings->get(), "role=spawner\n", 13), -1);
  EXPECT_EQ(ftruncate(settings->get(), 0), -1);
  EXPECT_EQ(fcntl(settings->get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(RoleStartTest, WhatIsNotASettingsFileIsRefused) {
  const std::string cases[] = {
      "",
      "root:x:0:0:root:/root:/bin/bash\n",
      "role\n",
      "role=\n",
      "role=superuser\n",
      "role=front\nno value here\n",
      "state_dir=/x\n",
      std::string(100'000, 'x'),
      std::string("\0\0\n\0", 4),
  };
  for (const std::string& text : cases) {
    const UniqueFd file = memory_file(text);
    EXPECT_EQ(in_role(file.get(), {}, [] { return read_role_start() ? 1 : 0; }), 0)
        << text.substr(0, 60);
  }
}

TEST(RoleStartDeathTest, AValueWithALineFeedIsABug) {
  RoleStart start;
  start.values = {{"token", "x\nrole=spawner"}};
  EXPECT_DEATH((void)write_role_start(start), "value.find");
  start.values.clear();
  start.confinement.state_dir = "/x\nrole=spawner";
  EXPECT_DEATH((void)write_role_start(start), "value.find");
  start.confinement.state_dir = "/x";
  start.values = {{"a=b", "c"}};
  EXPECT_DEATH((void)write_role_start(start), "key.find_first_of");
}

TEST(RoleStartDeathTest, AMissingDescriptorIsABug) {
  RoleStart start;
  EXPECT_DEATH((void)start.take("keeper"), "place != descriptors.end");
}

}  // namespace
}  // namespace pons::roles
