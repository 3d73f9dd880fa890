// Sandboxes as the spawner makes them: what is in them, what a switch of the view does to running
// processes, and what is left when they end.

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "background.h"
#include "layer_tree.h"
#include "pons/linux/fd.h"
#include "pons/linux/mount.h"
#include "sandbox_host.h"
#include "switch_view.h"

namespace pons::spawner {
namespace {

using linux::in_forked_child;
using ::testing::HasSubstr;

#define SAME(actual, expected)                                                             \
  do {                                                                                     \
    const std::string got_ = (actual), want_ = (expected);                                 \
    if (got_ != want_) {                                                                   \
      std::fprintf(stderr, "line %d: got \"%s\", wanted \"%s\"\n", __LINE__, got_.c_str(), \
                   want_.c_str());                                                         \
      return 1;                                                                            \
    }                                                                                      \
  } while (false)

constexpr std::uint64_t kKey = 0xABCDEF;

TEST(SandboxTest, IsAMachineOfItsOwn) {
  EXPECT_EQ(
      in_forked_child([] {
        SandboxHost host;
        REQUIRE(host.is_ready());
        const auto cell = host.create(kKey);
        REQUIRE(cell);
        SAME(shell(*cell, "hostname; id -u; pwd"), "sandbox\n1000\n/home/user\n");
        SAME(shell(*cell, "id -u; echo $HOME", "root"), "0\n/root\n");
        SAME(shell(*cell, "test $(ls /proc | grep -c '^[0-9]') -le 8; echo $?", "root"), "0\n");
        SAME(shell(*cell, "echo x > ~/f && cat ~/f && stat -c %U ~/f"), "x\nuser\n");
        SAME(shell(*cell, "touch /usr/x 2>/dev/null; echo $?"), "1\n");
        SAME(shell(*cell, "cat /proc/self/cgroup | grep -c -v ':/$'"), "0\n");
        SAME(shell(*cell, "ls /sys/class/net 2>/dev/null | wc -l; ls /etc/shadow 2>&1 | wc -l"),
             "0\n1\n");
        return 0;
      }),
      0);
}

// Which the one who asked is told as a limit: see cell_error.
TEST(SandboxTest, AtTheLimitOfProcessesStartingFailsAsSuchAndEndingOneMakesRoom) {
  EXPECT_EQ(in_forked_child([] {
              SandboxHost host;
              const auto cell = host.create(kKey);
              REQUIRE(cell);
              const auto start = [&](int number) {
                cell::JobOptions sleeper;
                sleeper.argv = {"/bin/sleep", "765432"};
                return cell->start("sleeper" + std::to_string(number), sleeper).header;
              };
              int number = 0;
              cell::ReplyHeader last = start(number);
              while (last.status == cell::Status::kDone && number < 64) last = start(++number);
              REQUIRE(number > 32 && last.status == cell::Status::kFailed);
              REQUIRE(last.step == cell::Step::kFork && last.os_error == EAGAIN);
              cell->signal("sleeper0", SIGKILL, cell::Reach::kProcess);
              cell->read_to_end("sleeper0");
              REQUIRE(start(number).status == cell::Status::kDone);
              return 0;
            }),
            0);
}

// ---- memory

std::uint64_t oom_kills(SandboxHost& host) {
  Values values{};
  return host.sandboxes().usage(kKey, values) ? values[kOomKills] : ~0ULL;
}

// The size and the number of files that the warden asks for with 512 MiB of memory: 32 are left to
// processes, 64 to /dev/shm, and 1280 bytes go to each file beside its content.
TEST(SandboxTest, ManySmallFilesFillTheDiskAndKillNobody) {
  EXPECT_EQ(
      in_forked_child([] {
        SandboxHost host;
        REQUIRE(host.is_ready());
        Request wanted = SandboxHost::request(RequestKind::kCreate, kKey);
        wanted.create.limits.memory_bytes = 512 << 20;
        wanted.create.limits.disk_bytes = 332'348'659;
        wanted.create.limits.disk_inodes = 81'139;
        const auto cell = host.create(wanted);
        REQUIRE(cell);
        SAME(shell(*cell,
                   "perl -e 'my $x = \"x\" x 4096; for my $i (1..200000) {"
                   "open(my $f, \">\", \"/tmp/$i\") or last; print $f $x or last; close $f or last;"
                   "$n = $i } print $n > 80000 ? \"full\" : \"$n $!\"'; touch /tmp/one more 2>&1 | "
                   "grep -c 'No space left'"),
             "full2\n");
        REQUIRE(oom_kills(host) == 0);
        return 0;
      }),
      0);
}

// What is made for a sandbox beside it: also while it is frozen.
TEST(SandboxTest, WhatIsWrittenForASandboxCountsAsItsMemoryAndEndsBeforeIt) {
  EXPECT_EQ(in_forked_child([] {
              SandboxHost host;
              const auto cell = host.create(kKey);
              REQUIRE(cell);
              linux::Cgroup& group = *host.sandboxes().find_cgroup(kKey);
              // Version 2 lets nobody into a frozen group who is to go on.
              const bool may_be_frozen = group.directory_fd() < 0;
              if (may_be_frozen) REQUIRE(host.sandboxes().freeze(kKey));
              const int store = host.sandboxes().find(kKey)->store->fd();
              const auto write_there = [&](const char* name, int mebibytes) {
                auto work = Background::start(
                    [&](int) -> Result<void> {
                      const linux::UniqueFd file(
                          openat(store, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
                      const std::string piece(1 << 20, 'x');
                      for (int i = 0; i < mebibytes; ++i)
                        TRY_VOID(linux::write_all(file.get(), piece));
                      return {};
                    },
                    &group);
                if (!work) return EIO;
                pollfd end{.fd = work->pidfd(), .events = POLLIN, .revents = 0};
                poll(&end, 1, 30'000);
                return work->collect().os_error;
              };
              const std::uint64_t before = group.usage().memory_bytes.value_or(0);
              REQUIRE(write_there("some", 60) == 0);
              REQUIRE(group.usage().memory_bytes.value_or(0) >= before + (55U << 20));
              // Beyond the limit it is the work that ends, and nobody of the sandbox.
              REQUIRE(group.set_limits({.memory_bytes = 100U << 20, .swap_bytes = 0}));
              REQUIRE(write_there("more", 60) == ENOMEM);
              if (may_be_frozen) REQUIRE(host.sandboxes().thaw(kKey));
              SAME(shell(*cell, "echo alive"), "alive\n");
              return 0;
            }),
            0);
}

// ---- what a switch of the view does

int checkpoint_and_rollback(LayerMounts layer_mounts) {
  SandboxHost host(layer_mounts);
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  SAME(shell(*cell, "echo one > a; mkdir -p d/e; echo deep > d/e/f; echo $?"), "0\n");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  SAME(shell(*cell, "cat a d/e/f; rm -r d; echo two > a; mv a b; ls"), "one\ndeep\nb\n");
  REQUIRE(host.switch_view(kKey, 2, {1, 0}, true));
  SAME(shell(*cell,
             "cat b; ls; ls /proc/self/fd /dev/pts /sys/fs /usr/bin/env > /dev/null; echo $?"),
       "two\nb\n0\n");
  REQUIRE(host.switch_view(kKey, 3, {0}, false));
  SAME(shell(*cell, "cat a d/e/f; ls; cat /proc/1/comm"), "one\ndeep\na\nd\ncell\n");
  return 0;
}

TEST(ViewTest, EveryCheckpointComesBackAsItWas) {
  EXPECT_EQ(in_forked_child([] { return checkpoint_and_rollback(LayerMounts::kDetached); }), 0);
}

TEST(ViewTest, TheSameOnKernelsThatTakeOnlyAttachedLayers) {
  EXPECT_EQ(in_forked_child([] { return checkpoint_and_rollback(LayerMounts::kAttached); }), 0);
}

TEST(ViewTest, PlacesOfAttachedStoresGoWithThem) {
  EXPECT_EQ(in_forked_child([] {
              SandboxHost host(LayerMounts::kAttached);
              REQUIRE(host.create(kKey));
              REQUIRE(!std::filesystem::is_empty("stores"));
              host.destroy(kKey);
              REQUIRE(std::filesystem::is_empty("stores"));
              return 0;
            }),
            0);
}

// After a lost answer. A second upper of the same number would take the place of the first, and
// what was written since would be gone.
int same_switch_twice() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  SAME(shell(*cell, "echo one > a"), "");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  SAME(shell(*cell, "echo two > a"), "");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  SAME(shell(*cell, "cat a"), "two\n");
  const Sandbox& sandbox = *host.sandboxes().find(kKey);
  REQUIRE(sandbox.upper == 1U);
  // What a later process of the spawner finds out.
  const auto mounted = find_mounted_upper(sandbox.mount_namespace.get());
  REQUIRE(mounted && *mounted == 1U);
  REQUIRE(host.switch_view(kKey, 2, {0}, false));
  REQUIRE(*find_mounted_upper(sandbox.mount_namespace.get()) == 2U);
  SAME(shell(*cell, "cat a"), "one\n");
  return 0;
}

TEST(ViewTest, TheSameSwitchTwiceIsOne) {
  EXPECT_EQ(in_forked_child(same_switch_twice), 0);
}

// ".." of a directory in the root must be the root from the first moment on.
int old_root() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  for (std::uint32_t layer = 1; layer < 6; ++layer) {
    REQUIRE(host.switch_view(kKey, layer, {layer - 1}, true));
    SAME(shell(*cell,
               "[ / -ef /.. ] && [ / -ef /usr/.. ] && echo same;"
               "ls /sys/kernel/debug >/dev/null 2>&1 || echo closed"),
         "same\nclosed\n");
  }
  // Nothing of the old ones is left.
  SAME(shell(*cell, "grep -c /sys/kernel/debug /proc/self/mountinfo"), "0\n");
  return 0;
}

TEST(ViewTest, TheOldRootCannotBeReached) {
  EXPECT_EQ(in_forked_child(old_root), 0);
}

int moved_directory() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  SAME(shell(*cell, "mkdir d; echo x > d/f"), "");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  SAME(shell(*cell, "perl -e 'rename(\"d\", \"n\") or die $!'; cat n/f; ls"), "x\nn\n");
  REQUIRE(host.switch_view(kKey, 2, {1, 0}, true));
  SAME(shell(*cell, "cat n/f; ls"), "x\nn\n");
  return 0;
}

TEST(ViewTest, ADirectoryFromBelowACheckpointCanBeRenamed) {
  EXPECT_EQ(in_forked_child(moved_directory), 0);
}

int busy_writer() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  cell::JobOptions writer;
  writer.argv = {"/bin/sh", "-c",
                 "exec 5> open; echo before >&5; echo ready; read x; echo after >&5"};
  writer.start.flags = cell::kInputOpen;
  writer.start.wait_ms = 10'000;
  const auto started = cell->start("writer", writer);
  REQUIRE(started.header.status == cell::Status::kDone);
  const auto refused = host.switch_view(kKey, 1, {0}, true);
  REQUIRE(!refused);
  REQUIRE(refused.error().os_error == EBUSY && refused.error().step == Step::kSeal);
  // Nothing changed: it goes on writing, and others can write too.
  REQUIRE(cell->write("writer", 0, "\n").header.status == cell::Status::kDone);
  const auto ended = cell->read_to_end("writer");
  REQUIRE(ended.state.ended == cell::Ended::kExit && ended.state.code == 0);
  SAME(shell(*cell, "cat open; echo new > new; cat new"), "before\nafter\nnew\n");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  return 0;
}

TEST(ViewTest, ACheckpointWhileAFileIsBeingWrittenIsRefusedAndChangesNothing) {
  EXPECT_EQ(in_forked_child(busy_writer), 0);
}

int not_alone() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  cell::JobOptions idle;
  idle.argv = {"/bin/sleep", "1000"};
  REQUIRE(cell->start("idle", idle).header.status == cell::Status::kDone);
  Request wanted = SandboxHost::request(RequestKind::kSwitchView, kKey);
  wanted.argument = 1;
  wanted.view.upper = 1;
  wanted.view.layer_count = 1;
  wanted.view.layers[0] = {.sandbox = kKey, .number = 0};
  wanted.view.must_seal = kSealAlone;
  const auto refused = host.sandboxes().switch_view(wanted);
  REQUIRE(!refused);
  REQUIRE(refused.error().os_error == EBUSY && refused.error().step == Step::kSeal);
  // A shell that has begun to wait for a line is there for the next one, and gone with it.
  REQUIRE(cell->call(cell::Op::kPing).header.status == cell::Status::kDone);
  SAME(shell(*cell, "echo written > new; cat new"), "written\n");
  REQUIRE(cell->signal("idle", SIGKILL, cell::Reach::kGroup).header.status == cell::Status::kDone);
  REQUIRE(cell->read_to_end("idle").state.ended == cell::Ended::kSignal);
  REQUIRE(host.sandboxes().switch_view(wanted));
  SAME(shell(*cell, "cat new"), "written\n");
  return 0;
}

TEST(ViewTest, WhoMustBeAloneIsRefusedBesideAnyProcess) {
  EXPECT_EQ(in_forked_child(not_alone), 0);
}

// A process that stands in the old view, with a directory, an open file and a mapping of it.
int stale_process() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  SAME(shell(*cell, "mkdir w; echo kept > w/f"), "");
  cell::JobOptions stale;
  stale.argv = {"/usr/bin/perl", "-e",
                "chdir 'w'; open(F, '<', 'f'); $| = 1; print \"ready\\n\"; <STDIN>;"
                "print open(G, '>', 'f') ? 'wrote' : 'refused', \"\\n\";"
                "print open(G, '>', 'new') ? 'wrote' : 'refused', \"\\n\";"
                "print unlink('f') ? 'removed' : 'refused', \"\\n\";"
                "print scalar(<F>);"};
  stale.start.flags = cell::kInputOpen;
  stale.start.wait_ms = 10'000;
  REQUIRE(cell->start("stale", stale).header.status == cell::Status::kDone);
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  REQUIRE(cell->write("stale", 0, "\n").header.status == cell::Status::kDone);
  SAME(cell->read_to_end("stale").output, "ready\nrefused\nrefused\nrefused\nkept\n");
  SAME(shell(*cell, "echo changed > w/f"), "");
  REQUIRE(host.switch_view(kKey, 2, {0}, false));
  SAME(shell(*cell, "ls w; cat w/f"), "f\nkept\n");
  return 0;
}

TEST(ViewTest, AProcessLeftInTheOldViewCannotChangeTheCheckpoint) {
  EXPECT_EQ(in_forked_child(stale_process), 0);
}

int shared_mapping() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  cell::JobOptions mapper;
  mapper.argv = {"/usr/bin/python3", "-c",
                 "import mmap,os,sys\n"
                 "fd=os.open('m',os.O_RDWR|os.O_CREAT); os.ftruncate(fd,4096)\n"
                 "m=mmap.mmap(fd,4096); os.close(fd); m[0:3]=b'old'\n"
                 "print('ready',flush=True); sys.stdin.readline(); m[0:3]=b'new'\n"};
  mapper.start.flags = cell::kInputOpen;
  mapper.start.wait_ms = 20'000;
  const auto started = cell::outcome_of(cell->start("mapper", mapper));
  SAME(started.output, "ready\n");
  const auto refused = host.switch_view(kKey, 1, {0}, true);
  REQUIRE(!refused && refused.error().os_error == EBUSY);
  return 0;
}

TEST(ViewTest, AWritableMappingIsABusyWriter) {
  EXPECT_EQ(in_forked_child(shared_mapping), 0);
}

int hostile_mount_points() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  SAME(shell(*cell,
             "mv /proc /p 2>/dev/null; rmdir /dev 2>/dev/null; mv /usr /u 2>/dev/null;"
             "ln -s /etc /sys/x 2>/dev/null; ls -d /proc /dev /usr",
             "root"),
       "/dev\n/proc\n/usr\n");
  // Names that a mount point could have on another template, as links to elsewhere.
  SAME(shell(*cell, "rm -f /lib32 /libx32; ln -s /proc /lib32; mkdir /libx32; echo ok", "root"),
       "ok\n");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  SAME(shell(*cell, "cat /proc/1/comm; readlink /lib32; ls /libx32"), "cell\n/proc\n");
  return 0;
}

TEST(ViewTest, NamesChosenInsideLeadTheSwitchNowhere) {
  EXPECT_EQ(in_forked_child(hostile_mount_points), 0);
}

// A view that lacks a place for one of the mounts: those that were moved before come back.
int impossible_view() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  SAME(shell(*cell, "echo kept > f"), "");
  for (const char* const missing : {"proc", "sys", "dev", "usr"}) {
    auto view = linux::DetachedMount::new_filesystem("tmpfs", {});
    REQUIRE(view);
    for (const char* const name : {"proc", "sys", "dev", "usr"})
      REQUIRE(std::string_view(name) == missing || mkdirat(view->fd(), name, 0755) == 0);
    const auto switched = switch_view(host.sandboxes().find(kKey)->mount_namespace.get(),
                                      std::move(*view), Seal::kRequired);
    REQUIRE(!switched && switched.error().step == Step::kSwitch);
    SAME(shell(*cell,
               "cat f /proc/1/comm; ls -d /sys/fs/cgroup /dev/pts /usr/bin/env; echo x > /dev/null;"
               "echo kept > f"),
         "kept\ncell\n/dev/pts\n/sys/fs/cgroup\n/usr/bin/env\n");
  }
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  SAME(shell(*cell, "cat f /proc/1/comm"), "kept\ncell\n");
  return 0;
}

TEST(ViewTest, ASwitchThatFailsHalfWayChangesNothing) {
  EXPECT_EQ(in_forked_child(impossible_view), 0);
}

// Somebody who looks again and again, with "/" as his directory.
int looking_on() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  cell::JobOptions watcher;
  watcher.argv = {"/usr/bin/perl", "-e",
                  "use POSIX (); $| = 1; $looks = 0; chdir '/'; print \"ready\\n\";"
                  "$SIG{TERM} = sub { $over = 1 };"
                  "until ($over) { for (qw(/proc/self /dev/null /usr/bin /sys/fs / . proc usr)) {"
                  "  ++$looks; stat($_) or $missing{\"$_: $!\"}++ } }"
                  "print $looks > 1000 ? 'many' : $looks, ' looks', %missing, \"\\n\";"};
  watcher.start.wait_ms = 20'000;
  SAME(cell::outcome_of(cell->start("watcher", watcher)).output, "ready\n");
  for (std::uint32_t layer = 1; layer <= 300; ++layer)
    REQUIRE(host.switch_view(kKey, layer, {layer - 1}, true));
  REQUIRE(cell->signal("watcher", SIGTERM, cell::Reach::kProcess).header.status ==
          cell::Status::kDone);
  SAME(cell->read_to_end("watcher").output, "ready\nmany looks\n");
  return 0;
}

TEST(ViewTest, RunningProcessesNeverSeeAMomentBetweenTwoViews) {
  EXPECT_EQ(in_forked_child(looking_on), 0);
}

// ---- layers

int merged_layers() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  SAME(shell(*cell, "mkdir -p d/sub gone; echo 1 > d/a; echo 1 > d/b; echo 1 > gone/x; echo 1 > t"),
       "");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  SAME(shell(*cell,
             "rm d/a; rm -r gone; mkdir gone; echo 2 > gone/y; echo 2 > d/b; echo 2 > d/sub/n;"
             "rm t; mkdir t; chmod 700 d"),
       "");
  REQUIRE(host.switch_view(kKey, 2, {1, 0}, true));
  const std::string look = "find d gone t -printf '%p %m %u\\n' | sort; cat d/b gone/y d/sub/n";
  const std::string before = shell(*cell, look);
  const auto& store = *host.sandboxes().find(kKey)->store;
  REQUIRE(store.add_layer(10, first_id_of(host.sandboxes().find(kKey)->slot)));
  const auto upper = store.open_layer(1), lower = store.open_layer(0),
             merged = store.open_layer(10);
  REQUIRE(upper && lower && merged);
  REQUIRE(merge_layers({upper->get(), lower->get()}, {}, merged->get()));
  REQUIRE(host.switch_view(kKey, 11, {10}, true));
  SAME(shell(*cell, look), before);
  REQUIRE(before.find("gone/y") != std::string::npos);
  REQUIRE(before.find("gone/x") == std::string::npos);
  return 0;
}

TEST(LayerTest, MergedLayersShowWhatTheyShowedOneByOne) {
  EXPECT_EQ(in_forked_child(merged_layers), 0);
}

TEST(LayerTest, ATreeDeeperThanDescriptorsIsDeleted) {
  const linux::ScratchDirectory scratch;
  const linux::UniqueFd top(open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  mkdirat(top.get(), "tree", 0700);
  int at = openat(top.get(), "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int depth = 0; depth < 3000; ++depth) {
    ASSERT_EQ(mkdirat(at, "next", 0700), 0);
    ASSERT_EQ(symlinkat("/etc", at, "link"), 0);
    const int next = openat(at, "next", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(at);
    at = next;
  }
  close(at);
  const auto removed = remove_tree(top.get(), "tree");
  EXPECT_TRUE(removed) << removed.error().describe();
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_TRUE(std::filesystem::exists("/etc/passwd"));
}

int forked_sandbox(LayerMounts layer_mounts) {
  SandboxHost host(layer_mounts);
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  SAME(shell(*cell, "echo mine > f; mkdir d; echo x > d/g"), "");
  REQUIRE(host.switch_view(kKey, 1, {0}, true));
  Request fork = SandboxHost::request(RequestKind::kCreate, kKey + 1);
  fork.view.layer_count = 1;
  fork.view.layers[0] = {.sandbox = kKey, .number = 0};
  const auto twin = host.create(fork);
  REQUIRE(twin);
  SAME(shell(*twin, "cat f d/g; stat -c %U f; echo theirs > f; rm -r d; cat f"),
       "mine\nx\nuser\ntheirs\n");
  SAME(shell(*cell, "cat f d/g"), "mine\nx\n");
  REQUIRE(host.sandboxes().find(kKey)->slot != host.sandboxes().find(kKey + 1)->slot);
  // The layers outlive the sandbox they came from, also for a change of view.
  host.destroy(kKey);
  SAME(shell(*twin, "ls"), "f\n");
  Request again = SandboxHost::request(RequestKind::kSwitchView, kKey + 1);
  again.view.upper = 1;
  again.view.layer_count = 1;
  again.view.layers[0] = {.sandbox = kKey, .number = 0};
  REQUIRE(host.sandboxes().switch_view(again));
  SAME(shell(*twin, "cat f d/g"), "mine\nx\n");
  return 0;
}

TEST(LayerTest, AForkStandsOnTheSameFilesWithIdsOfItsOwn) {
  EXPECT_EQ(in_forked_child([] { return forked_sandbox(LayerMounts::kDetached); }), 0);
  EXPECT_EQ(in_forked_child([] { return forked_sandbox(LayerMounts::kAttached); }), 0);
}

int copied_store() {
  const SandboxLimits limits = SandboxHost::request(RequestKind::kCreate, 1).create.limits;
  const auto store = Store::create_in_memory(limits);
  REQUIRE(store && store->add_layer(3, first_id_of(7)));
  const auto layer = store->open_layer(3);
  REQUIRE(mkdirat(layer->get(), "d", 0751) == 0);
  const linux::UniqueFd file(openat(layer->get(), "d/f", O_CREAT | O_WRONLY, 0640));
  REQUIRE(linux::write_all(file.get(), "text"));
  REQUIRE(fchown(file.get(), first_id_of(7) + 1000, first_id_of(7) + 5) == 0);
  REQUIRE(linkat(layer->get(), "d/f", layer->get(), "again", 0) == 0);
  REQUIRE(mknodat(layer->get(), "deleted", S_IFCHR, 0) == 0);
  REQUIRE(symlinkat("/etc/passwd", layer->get(), "link") == 0);
  const std::uint32_t numbers[] = {3};
  const auto copy = copy_store(*store, numbers, limits, 7, 9);
  REQUIRE(copy);
  const auto there = copy->open_layer(3);
  struct stat info{}, twin{}, mark{};
  REQUIRE(fstatat(there->get(), "d/f", &info, AT_SYMLINK_NOFOLLOW) == 0);
  REQUIRE(info.st_uid == first_id_of(9) + 1000 && info.st_gid == first_id_of(9) + 5);
  REQUIRE((info.st_mode & 07777) == 0640 && info.st_size == 4);
  REQUIRE(fstatat(there->get(), "again", &twin, 0) == 0 && twin.st_ino == info.st_ino);
  REQUIRE(fstatat(there->get(), "deleted", &mark, 0) == 0 && S_ISCHR(mark.st_mode));
  REQUIRE(fstatat(there->get(), "link", &mark, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(mark.st_mode));
  return 0;
}

TEST(LayerTest, ACopyHasTheSameFilesWithOtherOwners) {
  EXPECT_EQ(in_forked_child(copied_store), 0);
}

// ---- ends

std::size_t entries(const char* path) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
}

int ended_sandbox() {
  SandboxHost host;
  REQUIRE(host.create(kKey));  // what is made once stays
  host.destroy(kKey);
  while (host.sandboxes().prepare_one()) {
  }
  const std::size_t before = entries("/proc/self/fd");
  const std::string mounts = *linux::read_file("/proc/self/mountinfo");
  for (std::uint64_t key = kKey + 1; key < kKey + 6; ++key) {
    {
      const auto cell = host.create(key);
      REQUIRE(cell);
      shell(*cell, "setsid sleep 1000 & setsid sh -c 'trap \"\" TERM INT HUP; sleep 1000' & echo");
    }
    host.destroy(key);
    while (host.sandboxes().prepare_one()) {
    }
  }
  // Each of the grounds that are kept ready may have got a clone of the template's layer.
  REQUIRE(entries("/proc/self/fd") <= before + 8);
  SAME(*linux::read_file("/proc/self/mountinfo"), mounts);
  REQUIRE(entries("cells") == 0);
  return 0;
}

TEST(SandboxEndTest, LeavesNoDescriptorMountOrSocket) {
  EXPECT_EQ(in_forked_child(ended_sandbox), 0);
}

// Also while as many are prepared as ever are: a range of ids is not made anew for each.
int slots_of_one_after_the_other() {
  SandboxHost host;
  REQUIRE(host.is_ready());
  std::set<std::uint32_t> slots;
  for (std::uint64_t key = kKey; key < kKey + 30; ++key) {
    while (host.sandboxes().prepare_one()) {
    }
    REQUIRE(host.create(key));
    slots.insert(host.sandboxes().find(key)->slot);
    host.destroy(key);
  }
  REQUIRE(slots.size() <= 9);
  // Not the same again at once: what is left of the former one meets its ids late.
  REQUIRE(slots.size() >= 8);
  return 0;
}

TEST(SandboxEndTest, IdsServeAgainInTurn) {
  EXPECT_EQ(in_forked_child(slots_of_one_after_the_other), 0);
}

// What a sandbox can read of its network says nothing about the one that had it before.
int networks() {
  SandboxHost host;
  std::uint64_t key = kKey;
  const auto traces_after = [&](const std::string& use) -> std::string {
    const auto cell = host.create(++key);
    if (!cell) return "cannot create";
    const std::string before =
        shell(*cell, "cd /proc/net; cat dev snmp netstat snmp6; readlink /proc/self/ns/net");
    shell(*cell, use);
    host.destroy(key);
    return before;
  };
  const std::string clean = traces_after("true");
  const char* const uses[] = {
      "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1:9\")'",
      "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"192.0.2.1:9\")'", "true"};
  std::set<std::string> seen;
  for (int round = 0; round < 18; ++round) seen.insert(traces_after(uses[round % 3]));
  const auto counters = [](const std::string& text) { return text.substr(0, text.rfind("net:")); };
  for (const std::string& text : seen) SAME(counters(text), counters(clean));
  return 0;
}

TEST(SandboxEndTest, ANetworkSaysNothingOfAnybodyElse) {
  EXPECT_EQ(in_forked_child(networks), 0);
}

int frozen_sandbox() {
  SandboxHost host;
  const auto cell = host.create(kKey);
  REQUIRE(cell);
  REQUIRE(host.sandboxes().freeze(kKey));
  REQUIRE(!cell->receive(cell->send(cell::Op::kPing, {}, {}), 300));
  REQUIRE(host.sandboxes().thaw(kKey));
  SAME(shell(*cell, "echo awake"), "awake\n");
  REQUIRE(host.sandboxes().freeze(kKey));
  host.destroy(kKey);  // also while it is frozen
  REQUIRE(entries("cells") == 0);
  return 0;
}

TEST(SandboxEndTest, AFrozenSandboxIsSilentWakesAndEnds) {
  EXPECT_EQ(in_forked_child(frozen_sandbox), 0);
}

}  // namespace
}  // namespace pons::spawner
