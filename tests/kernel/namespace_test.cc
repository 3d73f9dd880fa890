#include "pons/linux/namespace.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>

#include "forked.h"
#include "pons/linux/capabilities.h"

namespace pons::linux {
namespace {

std::uint64_t current_id(NamespaceKind kind) {
  return NamespaceFd::open_current(kind)->id();
}

TEST(NamespaceTest, UnsharingMakesNewOnesAndEnteringLeadsBack) {
  EXPECT_EQ(in_forked_child([] {
              for (const NamespaceKind kind :
                   {NamespaceKind::kMount, NamespaceKind::kNet, NamespaceKind::kIpc,
                    NamespaceKind::kUts, NamespaceKind::kCgroup}) {
                const auto old_one = NamespaceFd::open_of(getpid(), kind);
                REQUIRE(old_one && old_one->id() == current_id(kind));
                REQUIRE(unshare_namespaces({kind}));
                REQUIRE(current_id(kind) != old_one->id());
                REQUIRE(old_one->enter());
                REQUIRE(current_id(kind) == old_one->id());
              }
              return 0;
            }),
            0);
}

TEST(NamespaceTest, EnteringChecksTheKindAndThePidMustExist) {
  EXPECT_EQ(
      in_forked_child([] {
        auto net = *open_file("/proc/self/ns/net", O_RDONLY);
        const auto wrong = NamespaceFd::adopt(std::move(net), NamespaceKind::kUts);
        REQUIRE(wrong.enter().error().code == ErrorCode::kInvalid);
        REQUIRE(NamespaceFd::open_of(0, NamespaceKind::kNet).error().code == ErrorCode::kNotFound);
        return 0;
      }),
      0);
}

// Unshares a user namespace in a child, maps it from here and hands the child's verdict back.
int in_mapped_child(std::span<const IdMap> maps, bool privileged,
                    const std::function<int()>& body) {
  return in_forked_child([&] {
    if (!privileged) {
      REQUIRE(become_user(65534, 65534));
      // Changing users made it undumpable, and then its /proc files belong to root.
      REQUIRE(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
    }
    Pipe ready = *create_pipe();
    Pipe go = *create_pipe();
    const pid_t child = fork();
    if (child == 0) {
      char byte = 0;
      if (!unshare_namespaces({NamespaceKind::kUser})) _exit(3);
      if (write(ready.write_end.get(), "x", 1) != 1 || read(go.read_end.get(), &byte, 1) != 1)
        _exit(4);
      _exit(body());
    }
    char byte = 0;
    REQUIRE(read(ready.read_end.get(), &byte, 1) == 1);
    const auto mapped = write_id_maps(child, maps, maps);
    if (!mapped) std::fprintf(stderr, "%s\n", mapped.error().describe().c_str());
    REQUIRE(write(go.write_end.get(), "x", 1) == 1);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(mapped);
    return WEXITSTATUS(status);
  });
}

TEST(NamespaceTest, MapsShowOtherIdsInside) {
  const IdMap maps[] = {{.inside = 5, .outside = 0, .count = 1},
                        {.inside = 1000, .outside = 200'000, .count = 100}};
  EXPECT_EQ(in_mapped_child(maps, true,
                            [] {
                              REQUIRE(getuid() == 5 && getgid() == 5);
                              REQUIRE(setgid(1001) == 0 && setuid(1001) == 0);
                              REQUIRE_ERRNO(setuid(7), EINVAL);
                              return 0;
                            }),
            0);
}

TEST(NamespaceTest, AnUnprivilegedMapGivesUpSetgroups) {
  const IdMap maps[] = {{.inside = 0, .outside = 65534, .count = 1}};
  EXPECT_EQ(in_mapped_child(maps, false,
                            [] {
                              REQUIRE(getuid() == 0 && getgid() == 0);
                              REQUIRE(read_file("/proc/self/setgroups").value() == "deny\n");
                              return 0;
                            }),
            0);
}

TEST(NamespaceTest, EmptyAndForeignMapsAreRefused) {
  EXPECT_EQ(write_id_maps(getpid(), {}, {}).error().code, ErrorCode::kInvalid);
  const IdMap maps[] = {{0, 0, 1}};
  EXPECT_FALSE(write_id_maps(0, maps, maps));
}

TEST(NamespaceTest, ANewNetNamespaceIsEmptyAndTheCallerStays) {
  const std::uint64_t before = current_id(NamespaceKind::kNet);
  const auto created = create_net_namespace();
  ASSERT_TRUE(created) << created.error().describe();
  EXPECT_EQ(current_id(NamespaceKind::kNet), before);
  std::string devices;
  std::uint64_t inside = 0;
  ASSERT_TRUE(run_in_net_namespace(created->get(), [&]() -> Result<void> {
    inside = current_id(NamespaceKind::kNet);
    devices = TRY(read_file("/proc/thread-self/net/dev"));
    return {};
  }));
  EXPECT_NE(inside, before);
  EXPECT_NE(devices.find("lo:"), std::string::npos);
  EXPECT_EQ(std::ranges::count(devices, ':'), 1);
  EXPECT_EQ(current_id(NamespaceKind::kNet), before);
}

TEST(NamespaceTest, ErrorsOfTheWorkInsideComeBack) {
  const auto created = create_net_namespace();
  const auto failed = run_in_net_namespace(
      created->get(), []() -> Result<void> { return make_error(ErrorCode::kLimit, "inside", {}); });
  EXPECT_EQ(failed.error().code, ErrorCode::kLimit);
  EXPECT_FALSE(run_in_net_namespace(-1, []() -> Result<void> { return {}; }));
}

}  // namespace
}  // namespace pons::linux
