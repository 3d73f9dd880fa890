#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <set>
#include <thread>

#include <fmt/format.h>

#include "forked.h"
#include "pons/linux/capabilities.h"
#include "pons/linux/child.h"
#include "pons/linux/fd.h"
#include "pons/linux/process.h"
#include "pons/linux/unix_socket.h"
#include "pons/roles/attempts.h"
#include "pons/roles/channel.h"
#include "pons/roles/confinement.h"
#include "pons/spawner/protocol.h"
#include "pons/spawner/spawner.h"
#include "pons/supervisor/role_runtime.h"

namespace pons::roles {

namespace {
std::string_view step_to_leave_out;
}

// Takes the place of the one in pons_roles, which never leaves anything out.
bool is_step_left_out(std::string_view step) {
  return step == step_to_leave_out;
}

namespace {

using linux::in_forked_child;
using linux::UniqueFd;

class RolesTest : public ::testing::Test {
 protected:
  // A state directory as the supervisor makes it.
  RolesTest() {
    EXPECT_EQ(chmod(state_.path().c_str(), 0711), 0);
    for (const Profile& profile : profiles()) {
      const std::string own = state_.make_directory(std::string(profile.name));
      const uid_t owner = profile.capabilities == 0 ? uid_of(profile.role) : 0;
      EXPECT_EQ(chmod(own.c_str(), 0700), 0);
      EXPECT_EQ(chown(own.c_str(), owner, owner), 0);
    }
    EXPECT_TRUE(linux::write_file_atomically(state_ / "admin.token", "secret", 0600));
  }
  ~RolesTest() override { step_to_leave_out = {}; }

  // Runs `body` as a confined role below a process with the rights of the supervisor.
  int as_role(Role role, const std::function<int()>& body) {
    return in_forked_child([&] {
      REQUIRE(linux::set_undumpable());
      REQUIRE(linux::keep_only_capabilities(supervisor_capabilities()));
      const pid_t supervisor = getpid();
      return in_forked_child([&] {
        const auto steps = confine(profile_of(role), {state_.path(), supervisor});
        if (!steps) {
          std::fprintf(stderr, "%s\n", steps.error().describe().c_str());
          return kConfinementFailed;
        }
        for (const ConfinementStep& step : *steps)
          if (step.name != step_to_leave_out) REQUIRE(step.done && step.note.empty());
        return body();
      });
    });
  }

  // The names of the promises that do not hold, one per line.
  std::string broken_promises(Role role) {
    linux::Pipe pipe = *linux::create_pipe();
    EXPECT_EQ(as_role(role,
                      [&] {
                        for (const auto& result :
                             run_self_test(profile_of(role), {state_.path(), getppid()}))
                          if (!result.holds)
                            REQUIRE(linux::write_all(pipe.write_end.get(), result.name + "\n"));
                        return 0;
                      }),
              0)
        << name_of(role);
    pipe.write_end.reset();
    return linux::read_all(pipe.read_end.get(), 1 << 16).value_or("?");
  }

  static constexpr int kConfinementFailed = 77;
  linux::ScratchDirectory state_;
};

TEST_F(RolesTest, EveryPromiseOfEveryRoleHolds) {
  for (const Profile& profile : profiles())
    EXPECT_EQ(broken_promises(profile.role), "") << profile.name;
}

// ---- the self-test is worth something: it notices each missing step

struct MissingStep {
  const char* step;
  Role role;
  const char* noticed_by;
};

class MissingStepTest : public RolesTest, public ::testing::WithParamInterface<MissingStep> {};

TEST_P(MissingStepTest, IsNoticedByTheSelfTest) {
  step_to_leave_out = GetParam().step;
  const std::string broken = broken_promises(GetParam().role);
  EXPECT_NE(("\n" + broken).find(fmt::format("\n{}\n", GetParam().noticed_by)), std::string::npos)
      << "broken: " << broken;
}

INSTANTIATE_TEST_SUITE_P(
    Steps, MissingStepTest,
    ::testing::Values(MissingStep{"landlock", Role::kBrain, "read_etc"},
                      MissingStep{"landlock", Role::kBrain, "read_usr"},
                      MissingStep{"capabilities", Role::kBrain, "capabilities"},
                      MissingStep{"memory", Role::kFront, "core_dump"},
                      MissingStep{"memory", Role::kSpawner, "core_dump"},
                      MissingStep{"seccomp", Role::kFront, "fork"},
                      MissingStep{"seccomp", Role::kGateway, "unix_socket"},
                      MissingStep{"seccomp", Role::kBrain, "ipv4_socket"},
                      MissingStep{"mount_namespace", Role::kSpawner, "read_admin_token"},
                      MissingStep{"mount_namespace", Role::kSpawner, "read_other_state"},
                      MissingStep{"state_dir", Role::kBrain, "own_state"}),
    [](const auto& instance) {
      return fmt::format("{}_of_{}_by_{}", instance.param.step, name_of(instance.param.role),
                         instance.param.noticed_by);
    });

TEST_F(RolesTest, WithoutNoNewPrivilegesARoleDoesNotStart) {
  step_to_leave_out = "no_new_privileges";
  EXPECT_EQ(as_role(Role::kBrain, [] { return 0; }), kConfinementFailed);
}

TEST_F(RolesTest, ARoleWithoutItsStateDirectoryDoesNotStart) {
  std::filesystem::remove(state_ / "brain");
  EXPECT_EQ(as_role(Role::kBrain, [] { return 0; }), kConfinementFailed);
}

TEST_F(RolesTest, ARoleWhoseSupervisorIsGoneDoesNotStart) {
  EXPECT_EQ(in_forked_child([&] {
              const auto confined = confine(profile_of(Role::kBrain), {state_.path(), getpid()});
              REQUIRE(!confined);
              return 0;
            }),
            0);
}

// ---- attacks from inside the brain

TEST_F(RolesTest, BrainReachesNoFilesButItsOwn) {
  EXPECT_TRUE(linux::write_file_atomically(state_ / "gateway/key", "secret", 0644));
  EXPECT_EQ(as_role(Role::kBrain,
                    [&] {
                      REQUIRE_ERRNO(open("/etc/passwd", O_RDONLY), EACCES);
                      REQUIRE_ERRNO(open("/proc/self/root/etc/passwd", O_RDONLY), EACCES);
                      REQUIRE_ERRNO(open("/proc/self/cwd/../gateway/key", O_RDONLY), EACCES);
                      REQUIRE_ERRNO(open("../gateway/key", O_RDONLY), EACCES);
                      REQUIRE_ERRNO(open("../../../etc/passwd", O_RDONLY), EACCES);
                      REQUIRE_ERRNO(open("../admin.token", O_RDONLY), EACCES);
                      REQUIRE_ERRNO(open("..", O_RDONLY | O_DIRECTORY), EACCES);
                      REQUIRE_ERRNO(open("/proc/self/environ", O_RDONLY), EACCES);
                      REQUIRE_ERRNO(open("/proc/self/mem", O_RDWR), EACCES);
                      REQUIRE_ERRNO(open("/dev/null", O_WRONLY), EACCES);
                      // A way out through a link or a rename does not exist either.
                      REQUIRE_ERRNO(symlink("/etc/passwd", "link"), EPERM);
                      REQUIRE_ERRNO(link("/etc/passwd", "link"), EPERM);
                      REQUIRE_ERRNO(syscall(SYS_openat2, AT_FDCWD, "../admin.token", nullptr, 0),
                                    EPERM);
                      REQUIRE(rename("../gateway/key", "key") == -1);
                      REQUIRE(mkdir("../brain2", 0700) == -1);
                      REQUIRE_ERRNO(mknod("device", S_IFCHR | 0600, 0x103), EPERM);
                      REQUIRE_ERRNO(chroot("."), EPERM);
                      return 0;
                    }),
            0);
}

TEST_F(RolesTest, BrainWritesItsOwnState) {
  EXPECT_EQ(as_role(Role::kBrain,
                    [] {
                      const UniqueFd file(open("memory.db", O_RDWR | O_CREAT | O_EXCL, 0600));
                      REQUIRE(file);
                      REQUIRE(linux::write_all(file.get(), "text"));
                      REQUIRE(fsync(file.get()) == 0);
                      REQUIRE(mkdir("folder", 0700) == 0);
                      REQUIRE(rename("memory.db", "folder/memory.db") == 0);
                      REQUIRE(linux::read_file("folder/memory.db").value_or("") == "text");
                      return 0;
                    }),
            0);
  EXPECT_EQ(linux::read_file(state_ / "brain/folder/memory.db").value_or(""), "text");
  struct stat info{};
  ASSERT_EQ(stat((state_ / "brain/folder/memory.db").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, uid_of(Role::kBrain));
}

TEST_F(RolesTest, BrainStartsNoProgramAndNoProcess) {
  EXPECT_EQ(as_role(Role::kBrain,
                    [] {
                      char* const argv[] = {nullptr};
                      REQUIRE_ERRNO(execve("/bin/true", argv, argv), EPERM);
                      REQUIRE_ERRNO(syscall(SYS_fork), EPERM);
                      REQUIRE_ERRNO(syscall(SYS_vfork), EPERM);
                      REQUIRE_ERRNO(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), EPERM);
                      REQUIRE_ERRNO(syscall(SYS_clone3, nullptr, 0), ENOSYS);
                      const UniqueFd program(memfd_create("program", MFD_CLOEXEC));
                      REQUIRE(program);
                      REQUIRE(linux::write_all(program.get(), "#!/bin/true\n"));
                      REQUIRE_ERRNO(
                          syscall(SYS_execveat, program.get(), "", argv, argv, AT_EMPTY_PATH),
                          EPERM);
                      const auto map = [&](int protection) {
                        return mmap(nullptr, 4096, protection, MAP_PRIVATE, program.get(), 0);
                      };
                      REQUIRE(map(PROT_READ) != MAP_FAILED);
                      REQUIRE(map(PROT_READ | PROT_EXEC) == MAP_FAILED && errno == EPERM);
                      bool ran = false;
                      std::thread([&] { ran = true; }).join();
                      REQUIRE(ran);
                      return 0;
                    }),
            0);
}

TEST_F(RolesTest, BrainReachesNoProcessAndNoSocket) {
  EXPECT_EQ(as_role(Role::kBrain,
                    [] {
                      REQUIRE_ERRNO(kill(getppid(), 0), EPERM);
                      REQUIRE_ERRNO(kill(-1, 0), EPERM);
                      REQUIRE_ERRNO(syscall(SYS_pidfd_open, getppid(), 0), EPERM);
                      REQUIRE(syscall(SYS_tgkill, getppid(), getppid(), 0) == -1);
                      REQUIRE_ERRNO(socket(AF_INET, SOCK_STREAM, 0), EPERM);
                      REQUIRE_ERRNO(socket(AF_INET6, SOCK_DGRAM, 0), EPERM);
                      REQUIRE_ERRNO(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
                      REQUIRE_ERRNO(socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
                      int ends[2];
                      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
                      REQUIRE_ERRNO(syscall(SYS_bind, ends[0], nullptr, 0), EPERM);
                      REQUIRE_ERRNO(syscall(SYS_connect, ends[0], nullptr, 0), EPERM);
                      REQUIRE_ERRNO(syscall(SYS_listen, ends[0], 1), EPERM);
                      return 0;
                    }),
            0);
}

TEST_F(RolesTest, FrontOpensNothingAtAll) {
  EXPECT_EQ(as_role(Role::kFront,
                    [] {
                      REQUIRE_ERRNO(open("own", O_WRONLY | O_CREAT, 0600), EPERM);
                      REQUIRE_ERRNO(open("/etc/passwd", O_RDONLY), EPERM);
                      REQUIRE_ERRNO(memfd_create("x", 0), EPERM);
                      REQUIRE_ERRNO(socket(AF_INET, SOCK_STREAM, 0), EPERM);
                      int ends[2];
                      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
                      return 0;
                    }),
            0);
}

TEST_F(RolesTest, GatewayReadsNameServiceFilesAndNothingElse) {
  EXPECT_EQ(as_role(Role::kGateway,
                    [] {
                      REQUIRE(open("/etc/hosts", O_RDONLY) >= 0);
                      REQUIRE_ERRNO(open("/etc/hosts", O_WRONLY), EACCES);
                      REQUIRE_ERRNO(open("/etc/passwd", O_RDONLY), EACCES);
                      REQUIRE(socket(AF_INET, SOCK_STREAM, 0) >= 0);
                      REQUIRE_ERRNO(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
                      return 0;
                    }),
            0);
}

// ---- the spawner's world

TEST_F(RolesTest, SpawnerSeesNothingOfTheHostButPrograms) {
  EXPECT_EQ(
      as_role(Role::kSpawner,
              [&] {
                const std::set<std::string> expected = {"bin",  "dev",  "etc", "lib", "lib64",
                                                        "proc", "sbin", "sys", "tmp", "usr"};
                for (const auto& entry : std::filesystem::directory_iterator("/"))
                  REQUIRE(expected.contains(entry.path().filename()));
                for (const Profile& profile : profiles())
                  if (profile.role != Role::kSpawner)
                    REQUIRE_ERRNO(access((state_ / std::string(profile.name)).c_str(), F_OK),
                                  ENOENT);
                REQUIRE_ERRNO(access((state_ / "admin.token").c_str(), F_OK), ENOENT);
                for (const char* gone : {"/etc/passwd", "/etc/shadow", "/root", "/home", "/var"})
                  REQUIRE_ERRNO(access(gone, F_OK), ENOENT);
                REQUIRE_ERRNO(access("/../../etc/passwd", F_OK), ENOENT);
                REQUIRE_ERRNO(access("/proc/self/root/etc/passwd", F_OK), ENOENT);
                REQUIRE_ERRNO(mkdir("/new", 0700), EROFS);
                REQUIRE_ERRNO(mkdir((state_ / "new").c_str(), 0700), EROFS);
                REQUIRE_ERRNO(open("/usr/new", O_WRONLY | O_CREAT, 0600), EROFS);
                REQUIRE(open("own", O_WRONLY | O_CREAT, 0600) >= 0);
                return 0;
              }),
      0);
  EXPECT_TRUE(std::filesystem::exists(state_ / "spawner/own"));
}

TEST_F(RolesTest, SpawnerSeesOnlyItsOwnProcesses) {
  const pid_t test_program = getpid();
  EXPECT_EQ(as_role(Role::kSpawner,
                    [&] {
                      const auto visible = [](pid_t pid) {
                        return access(fmt::format("/proc/{}", pid).c_str(), F_OK) == 0;
                      };
                      REQUIRE(visible(getpid()));
                      REQUIRE(!visible(getppid()));
                      REQUIRE(!visible(test_program));
                      REQUIRE(!visible(1));
                      for (const char* link : {"root", "cwd", "exe", "environ", "mem", "fd"})
                        REQUIRE_ERRNO(
                            access(fmt::format("/proc/{}/{}", getppid(), link).c_str(), F_OK),
                            ENOENT);
                      return 0;
                    }),
            0);
}

TEST_F(RolesTest, SpawnerCanDoItsWork) {
  EXPECT_EQ(as_role(Role::kSpawner,
                    [] {
                      REQUIRE(mkdir("mount", 0700) == 0);
                      REQUIRE(mount("none", "mount", "tmpfs", 0, nullptr) == 0);
                      REQUIRE(open("mount/file", O_WRONLY | O_CREAT, 0600) >= 0);
                      REQUIRE(in_forked_child([] {
                                REQUIRE(unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) == 0);
                                return 0;
                              }) == 0);
                      const auto program =
                          linux::ChildProcess::spawn("/bin/true", {.argv = {"true"}});
                      REQUIRE(program);
                      return 0;
                    }),
            0);
  EXPECT_FALSE(std::filesystem::exists(state_ / "spawner/mount/file"))
      << "a mount of the spawner showed on the host";
}

TEST_F(RolesTest, SpawnerHoldsExactlyTheCapabilitiesOfItsProfile) {
  const auto host = linux::current_capabilities();
  ASSERT_TRUE(host);
  // A container may have taken some of them from root already.
  const auto expected = profile_of(Role::kSpawner).capabilities & host->permitted;
  ASSERT_NE(host->permitted & ~expected, 0U) << "there is nothing to take away";
  EXPECT_EQ(
      as_role(Role::kSpawner,
              [&] {
                const auto held = linux::current_capabilities();
                REQUIRE(held);
                REQUIRE(held->effective == expected && held->permitted == expected);
                REQUIRE(held->bounding == expected);
                REQUIRE((held->ambient & ~expected) == 0 && (held->inheritable & ~expected) == 0);
                return 0;
              }),
      0);
}

// ---- whole role processes

// A role in a child process, and this test in the supervisor's place.
class RoleProgramTest : public RolesTest {
 protected:
  ~RoleProgramTest() override {
    if (child_ > 0) end(SIGKILL);
  }

  // Starts `program` with a keeper line and `name` as descriptor, and waits until it is ready.
  void start(Role role, const std::string& name, UniqueFd descriptor,
             const std::function<int(RoleStart)>& program) {
    auto line = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
    const pid_t supervisor = getpid();
    std::fflush(nullptr);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      RoleStart start;
      start.role = role;
      start.confinement = {.state_dir = state_.path(), .supervisor = supervisor};
      start.drain_seconds = 1;
      start.descriptors.emplace("keeper", std::move(line.second));
      start.descriptors.emplace(name, std::move(descriptor));
      if (control_) start.descriptors.emplace("control", std::move(control_));
      ours_.reset();
      line.first.reset();
      _exit(program(std::move(start)));
    }
    line.second.reset();
    std::string said = next_message(line.first.get());
    if (said == "list") {  // nothing was kept for it
      ASSERT_TRUE(linux::send_message(line.first.get(), "end", {}));
      said = next_message(line.first.get());
    }
    ASSERT_EQ(said, "ready");
    ASSERT_TRUE(linux::send_message(line.first.get(), "ok", {}));
    line_ = std::move(line.first);
  }

  static bool wait_readable(int fd) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&entry, 1, 30'000) == 1;
  }
  static std::string next_message(int socket) {
    for (;;) {
      auto message = linux::receive_message(socket, 4096, 1);
      if (!message) return message.error().describe();
      if (*message) return (*message)->bytes;
      if (!wait_readable(socket)) return "nothing came";
    }
  }
  int end(int signal) {
    kill(child_, signal);
    return wait_for_end();
  }
  int wait_for_end() {
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  pid_t child_ = -1;
  UniqueFd control_;
  UniqueFd ours_;  // our end of the channel
  UniqueFd line_;
};

class SpawnerProgramTest : public RoleProgramTest {
 protected:
  void SetUp() override {
    auto channel = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
    ours_ = std::move(channel.first);
    start(Role::kSpawner, "from:warden", std::move(channel.second),
          [](RoleStart start) { return spawner::run_spawner(std::move(start)); });
  }
  std::optional<spawner::Reply> ask(const spawner::Request& request) {
    while (!linux::send_message(ours_.get(), spawner::bytes_of(request), {}) && errno == EAGAIN)
      usleep(1000);  // it has yet to read what was sent before
    auto reply = spawner::parse_reply(next_message(ours_.get()));
    while (reply && reply->id == spawner::kNoticeId) {
      notices_.push_back(reply->values[0]);
      reply = spawner::parse_reply(next_message(ours_.get()));
    }
    return reply;
  }
  std::vector<std::uint64_t> notices_;
};

TEST_F(SpawnerProgramTest, AnswersByTheProtocol) {
  const auto identity = ask({.kind = spawner::RequestKind::kIdentify, .id = 7});
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->id, 7U);
  EXPECT_EQ(notices_, (std::vector<std::uint64_t>{0, 7}));
  EXPECT_EQ(identity->values[0], static_cast<std::uint64_t>(child_));
  const auto attempts = attempts_for(profile_of(Role::kSpawner));
  EXPECT_EQ(identity->values[2], attempts.size());
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const auto reply = ask({.kind = spawner::RequestKind::kAttempt, .id = 100 + i, .argument = i});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->id, 100 + i);
    EXPECT_TRUE(judge(*attempts[i], static_cast<int>(reply->os_error)).holds) << attempts[i]->name;
  }
  for (const std::uint64_t beyond : {std::uint64_t{attempts.size()}, ~std::uint64_t{0}}) {
    const auto reply = ask({.kind = spawner::RequestKind::kAttempt, .id = 9, .argument = beyond});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, spawner::Status::kBadRequest);
  }
  EXPECT_EQ(end(SIGTERM), 0);
}

TEST_F(SpawnerProgramTest, DropsGarbageAndLivesOn) {
  const UniqueFd file(memfd_create("garbage", MFD_CLOEXEC));
  const int descriptor = file.get();
  const std::string good(spawner::bytes_of(spawner::Request{.id = 1}));
  std::string wrong_magic = good, wrong_version = good, wrong_kind = good;
  wrong_magic[0] ^= 1;
  wrong_version[4] ^= 1;
  wrong_kind[6] = 99;
  for (int round = 0; round < 30; ++round) {  // more than one turn of requests
    while (send(ours_.get(), "", 0, MSG_NOSIGNAL) != 0 && errno == EAGAIN) usleep(1000);
    for (const std::string& garbage :
         {std::string("x"), good.substr(1), good + "x", wrong_magic, wrong_version, wrong_kind})
      while (!linux::send_message(ours_.get(), garbage, {})) usleep(1000);
    while (!linux::send_message(ours_.get(), good, {&descriptor, 1})) usleep(1000);
  }
  const auto identity = ask({.kind = spawner::RequestKind::kIdentify, .id = 42});
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->id, 42U) << "a malformed request was answered";
  EXPECT_EQ(end(SIGTERM), 0);
}

TEST_F(SpawnerProgramTest, WhoeverWaitsForTheFirstDiskOfASizeWaitsAlone) {
  spawner::Request wanted{.kind = spawner::RequestKind::kCreate, .id = 1, .sandbox = 0x77};
  wanted.create.flags = spawner::kDiskUpper;
  wanted.create.template_layer_count = 1;
  wanted.create.limits = {.memory_bytes = 64 << 20,
                          .pids = 64,
                          .cpu_percent = 100,
                          .disk_bytes = 48 << 20,
                          .disk_inodes = 3'000};
  ASSERT_TRUE(linux::send_message(ours_.get(), spawner::bytes_of(wanted), {}));
  const auto identity = ask({.kind = spawner::RequestKind::kIdentify, .id = 2});
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->id, 2U);
  const auto created = spawner::parse_reply(next_message(ours_.get()));
  ASSERT_TRUE(created);
  EXPECT_EQ(created->id, 1U);
  EXPECT_EQ(created->status, spawner::Status::kDone) << created->os_error;
  EXPECT_EQ(end(SIGTERM), 0);
}

TEST_F(SpawnerProgramTest, EndsWithItsChannel) {
  ours_.reset();
  EXPECT_EQ(wait_for_end(), 0);
}

// What comes through from:front is served as front, whatever it says about itself.
TEST_F(RoleProgramTest, TheCallerIsKnownByItsChannel) {
  const auto converse = [](const UniqueFd& socket) {
    EXPECT_TRUE(linux::write_all(socket.get(),
                                 "POST /selftest HTTP/1.1\r\nHost: operator\r\n"
                                 "X-Role: operator\r\nContent-Length: 0\r\n"
                                 "Connection: close\r\n\r\n"));
    std::string answer;
    char piece[4096];
    for (ssize_t got = -1; got != 0;) {
      got = read(socket.get(), piece, sizeof piece);
      if (got > 0) answer.append(piece, static_cast<std::size_t>(got));
      if (got < 0 && !wait_readable(socket.get())) return std::string("nothing came");
    }
    return answer;
  };
  const std::string control_path = state_ / "brain.sock";
  control_ = std::move(*linux::listen_unix(control_path, 0600));
  auto channel = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
  ours_ = std::move(channel.first);
  // Dialled before there is anyone to answer.
  const auto early = dial(ours_.get());
  ASSERT_TRUE(early);
  start(Role::kBrain, "from:front", std::move(channel.second), [](RoleStart start) {
    auto runtime = supervisor::RoleRuntime::create(std::move(start));
    return runtime ? (*runtime)->run() : 1;
  });
  EXPECT_EQ(converse(*early).substr(0, 12), "HTTP/1.1 403");
  const auto as_front = dial(ours_.get());
  ASSERT_TRUE(as_front);
  EXPECT_EQ(converse(*as_front).substr(0, 12), "HTTP/1.1 403");
  const auto as_operator = linux::connect_unix(control_path);
  ASSERT_TRUE(as_operator);
  const std::string report = converse(*as_operator);
  EXPECT_EQ(report.substr(0, 12), "HTTP/1.1 200");
  EXPECT_NE(report.find("\"role\":\"brain\",\"holds\":true"), std::string::npos) << report;
  EXPECT_EQ(end(SIGTERM), 0);
}

}  // namespace
}  // namespace pons::roles
