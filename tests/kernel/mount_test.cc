#include "pons/linux/mount.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "forked.h"
#include "pons/linux/namespace.h"

namespace pons::linux {
namespace {

// Every body has a mount namespace of its own: what it forgets ends with it.
int in_mount_namespace(const std::function<int()>& body) {
  return in_forked_child([&] {
    REQUIRE(unshare_namespaces({NamespaceKind::kMount}));
    REQUIRE(make_mounts_private());
    return body();
  });
}

int write_text(const std::string& path, std::string_view text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return -1;
  return write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : -1;
}

std::string text_of(const std::string& path) {
  return read_file(path).value_or("<unreadable>");
}

std::size_t mount_count() {
  const std::string mounts = *read_file("/proc/thread-self/mountinfo");
  return static_cast<std::size_t>(std::ranges::count(mounts, '\n'));
}

using Options = std::vector<std::pair<std::string, std::string>>;

TEST(MountTest, ADetachedMountVanishesWithItsDescriptor) {
  EXPECT_EQ(in_mount_namespace([] {
              const std::size_t before = mount_count();
              {
                const auto scratch =
                    DetachedMount::new_filesystem("tmpfs", Options{{"size", "1m"}});
                REQUIRE(scratch);
                const UniqueFd file(openat(scratch->fd(), "file", O_CREAT | O_WRONLY, 0600));
                REQUIRE(file);
                REQUIRE(mount_count() == before);
              }
              REQUIRE(mount_count() == before);
              return 0;
            }),
            0);
}

TEST(MountTest, AttachedItIsVisibleUntilItsOwnerIsGone) {
  ScratchDirectory scratch;
  EXPECT_EQ(in_mount_namespace([&] {
              const std::size_t before = mount_count();
              auto mount = DetachedMount::new_filesystem("tmpfs", Options{});
              REQUIRE(mount);
              REQUIRE(std::move(*mount).attach(AT_FDCWD, scratch.path()));
              {
                const UniqueMount owner(scratch.path());
                REQUIRE(mount_count() == before + 1);
                REQUIRE(write_text(scratch / "inside", "x") == 0);
              }
              REQUIRE(mount_count() == before);
              REQUIRE(!std::filesystem::exists(scratch / "inside"));
              return 0;
            }),
            0);
}

TEST(MountTest, ASymbolicLinkIsNoPlaceToAttach) {
  ScratchDirectory scratch;
  scratch.make_directory("real");
  std::filesystem::create_symlink("real", scratch / "link");
  EXPECT_EQ(in_mount_namespace([&] {
              auto mount = DetachedMount::new_filesystem("tmpfs", Options{});
              REQUIRE(!std::move(*mount).attach(AT_FDCWD, scratch / "link"));
              auto again = DetachedMount::new_filesystem("tmpfs", Options{});
              const UniqueFd real(open((scratch / "real").c_str(), O_PATH | O_CLOEXEC));
              REQUIRE(std::move(*again).attach(real.get(), ""));
              return 0;
            }),
            0);
}

TEST(MountTest, RefusalsCarryTheFilesystemsWords) {
  EXPECT_EQ(in_mount_namespace([] {
              const auto unknown = DetachedMount::new_filesystem("no_such_fs", Options{});
              REQUIRE(!unknown && unknown.error().os_error == ENODEV);
              const auto option =
                  DetachedMount::new_filesystem("tmpfs", Options{{"no_such_option", "1"}});
              REQUIRE(!option && option.error().message.contains("no_such_option"));
              REQUIRE(option.error().message.contains("Unknown parameter"));
              REQUIRE(!DetachedMount::clone_tree("/no/such/path", MountScope::kOneMount));
              return 0;
            }),
            0);
}

TEST(MountTest, AttributesAreEnforced) {
  ScratchDirectory scratch;
  scratch.make_directory("source");
  scratch.make_directory("target");
  EXPECT_EQ(in_mount_namespace([&] {
              REQUIRE(write_text(scratch / "source/file", "text") == 0);
              std::filesystem::copy_file("/bin/true", scratch / "source/true");
              auto mount = DetachedMount::clone_tree(scratch / "source", MountScope::kWholeTree);
              REQUIRE(mount);
              REQUIRE(mount->set_attributes({.read_only = true,
                                             .no_suid = true,
                                             .no_exec = true,
                                             .no_dev = true,
                                             .scope = MountScope::kWholeTree}));
              REQUIRE(std::move(*mount).attach(AT_FDCWD, scratch / "target"));
              const UniqueMount owner(scratch / "target");
              REQUIRE(text_of(scratch / "target/file") == "text");
              REQUIRE_ERRNO(write_text(scratch / "target/file", "x"), EROFS);
              char* const argv[] = {nullptr};
              REQUIRE_ERRNO(execve((scratch / "target/true").c_str(), argv, argv), EACCES);
              REQUIRE(write_text(scratch / "source/file", "still writable") == 0);
              return 0;
            }),
            0);
}

TEST(MountTest, CloningOneMountLeavesOutWhatIsMountedBelow) {
  ScratchDirectory scratch;
  scratch.make_directory("below");
  EXPECT_EQ(in_mount_namespace([&] {
              auto below = DetachedMount::new_filesystem("tmpfs", Options{});
              REQUIRE(std::move(*below).attach(AT_FDCWD, scratch / "below"));
              const UniqueMount owner(scratch / "below");
              REQUIRE(write_text(scratch / "below/file", "x") == 0);
              const UniqueFd place(open(scratch.path().c_str(), O_PATH | O_CLOEXEC));
              const auto one = DetachedMount::clone_tree(place.get(), MountScope::kOneMount);
              const auto whole = DetachedMount::clone_tree(scratch.path(), MountScope::kWholeTree);
              REQUIRE(one && whole);
              REQUIRE_ERRNO(faccessat(one->fd(), "below/file", F_OK, 0), ENOENT);
              REQUIRE(faccessat(whole->fd(), "below/file", F_OK, 0) == 0);
              return 0;
            }),
            0);
}

class OverlayTest : public ::testing::TestWithParam<LayerSyntax> {
 protected:
  OverlayTest() {
    for (const char* name : {"top", "bottom: with, odd \\ name", "upper", "work", "merged"})
      scratch_.make_directory(name);
  }
  OverlayLayers layers() const {
    return {.lower = {scratch_ / "top", scratch_ / "bottom: with, odd \\ name"},
            .upper = scratch_ / "upper",
            .work = scratch_ / "work"};
  }
  std::string merged(const std::string& name) const { return scratch_ / ("merged/" + name); }
  ScratchDirectory scratch_;
};

TEST_P(OverlayTest, WritesGoToTheUpperLayerOnly) {
  EXPECT_EQ(in_mount_namespace([&] {
              const std::string bottom = layers().lower[1];
              REQUIRE(write_text(bottom + "/both", "from the bottom") == 0);
              REQUIRE(write_text(bottom + "/only", "from the bottom") == 0);
              REQUIRE(write_text(scratch_ / "top/both", "from the top") == 0);
              auto overlay = DetachedMount::overlay(layers(), GetParam());
              if (!overlay) std::fprintf(stderr, "%s\n", overlay.error().describe().c_str());
              REQUIRE(overlay);
              REQUIRE(std::move(*overlay).attach(AT_FDCWD, scratch_ / "merged"));
              const UniqueMount owner(scratch_ / "merged");
              REQUIRE(text_of(merged("both")) == "from the top");
              REQUIRE(text_of(merged("only")) == "from the bottom");
              REQUIRE(write_text(merged("only"), "changed") == 0);
              REQUIRE(unlink(merged("both").c_str()) == 0);
              REQUIRE(text_of(scratch_ / "upper/only") == "changed");
              REQUIRE(text_of(bottom + "/only") == "from the bottom");
              REQUIRE(text_of(scratch_ / "top/both") == "from the top");
              return 0;
            }),
            0);
}

TEST_P(OverlayTest, WithoutAnUpperLayerItIsReadOnly) {
  EXPECT_EQ(in_mount_namespace([&] {
              auto overlay = DetachedMount::overlay({.lower = layers().lower}, GetParam());
              REQUIRE(overlay);
              REQUIRE_ERRNO(openat(overlay->fd(), "new", O_CREAT | O_WRONLY, 0600), EROFS);
              REQUIRE(!DetachedMount::overlay({.lower = {}}, GetParam()));
              REQUIRE(!DetachedMount::overlay({.lower = {scratch_ / "top"}}, GetParam()));
              REQUIRE(!DetachedMount::overlay(
                  {.lower = layers().lower, .upper = scratch_ / "upper"}, GetParam()));
              REQUIRE(!DetachedMount::overlay({.lower = {scratch_ / "top", scratch_ / "missing"}},
                                              GetParam()));
              return 0;
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(BothSyntaxes, OverlayTest,
                         ::testing::Values(LayerSyntax::kNewest, LayerSyntax::kColonList));

// A user namespace that maps `maps`, kept by its descriptor.
Result<NamespaceFd> create_user_namespace(std::span<const IdMap> maps) {
  Pipe ready = TRY(create_pipe());
  const pid_t child = fork();
  if (child == 0) {
    if (!unshare_namespaces({NamespaceKind::kUser})) _exit(1);
    [[maybe_unused]] const ssize_t put = write(ready.write_end.get(), "x", 1);
    for (;;) pause();
  }
  char byte = 0;
  ready.write_end.reset();
  Result<NamespaceFd> opened = make_error(ErrorCode::kInternal, "create user namespace", {});
  if (read(ready.read_end.get(), &byte, 1) == 1 && write_id_maps(child, maps, maps))
    opened = NamespaceFd::open_of(child, NamespaceKind::kUser);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return opened;
}

TEST(MountTest, AnIdmappedLowerLayerShowsShiftedOwners) {
  ScratchDirectory scratch;
  for (const char* name : {"image", "lower", "upper", "work"}) scratch.make_directory(name);
  EXPECT_EQ(
      in_mount_namespace([&] {
        REQUIRE(write_text(scratch / "image/file", "x") == 0);
        REQUIRE(chown((scratch / "image/file").c_str(), 1000, 1000) == 0);
        const IdMap maps[] = {{.inside = 0, .outside = 100'000, .count = 65'536}};
        const auto users = create_user_namespace(maps);
        REQUIRE(users);
        auto image = DetachedMount::clone_tree(scratch / "image", MountScope::kOneMount);
        REQUIRE(image->set_attributes({.idmap_user_namespace_fd = users->fd()}));
        REQUIRE(std::move(*image).attach(AT_FDCWD, scratch / "lower"));
        const UniqueMount lower_owner(scratch / "lower");
        struct stat status{};
        REQUIRE(stat((scratch / "lower/file").c_str(), &status) == 0);
        REQUIRE(status.st_uid == 101'000 && status.st_gid == 101'000);

        const auto overlay = DetachedMount::overlay(
            {.lower = {scratch / "lower"}, .upper = scratch / "upper", .work = scratch / "work"});
        if (!overlay) std::fprintf(stderr, "%s\n", overlay.error().describe().c_str());
        REQUIRE(overlay);
        REQUIRE(fstatat(overlay->fd(), "file", &status, 0) == 0);
        REQUIRE(status.st_uid == 101'000);
        REQUIRE(stat((scratch / "image/file").c_str(), &status) == 0);
        REQUIRE(status.st_uid == 1000);
        return 0;
      }),
      0);
}

TEST(MountTest, MountsMadeInAPrivateNamespaceStayThere) {
  ScratchDirectory scratch;
  const std::size_t before = mount_count();
  std::size_t inside = 0;
  Pipe pipe = *create_pipe();
  EXPECT_EQ(in_mount_namespace([&] {
              auto mount = DetachedMount::new_filesystem("tmpfs", Options{});
              REQUIRE(std::move(*mount).attach(AT_FDCWD, scratch.path()));
              const std::size_t count = mount_count();
              REQUIRE(write(pipe.write_end.get(), &count, sizeof count) == sizeof count);
              return 0;
            }),
            0);
  ASSERT_EQ(read(pipe.read_end.get(), &inside, sizeof inside), static_cast<ssize_t>(sizeof inside));
  EXPECT_EQ(inside, before + 1);
  EXPECT_EQ(mount_count(), before);
}

TEST(MountTest, AfterPivotingTheOldRootIsUnreachable) {
  ScratchDirectory scratch;
  EXPECT_EQ(in_mount_namespace([&] {
              const UniqueFd old_root(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
              auto root = DetachedMount::new_filesystem("tmpfs", Options{});
              REQUIRE(mkdirat(root->fd(), "here", 0755) == 0);
              REQUIRE(std::move(*root).attach(AT_FDCWD, scratch.path()));
              const UniqueFd place(open(scratch.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
              REQUIRE(pivot_to(place.get()));
              REQUIRE(access("/here", F_OK) == 0);
              REQUIRE_ERRNO(access("/etc", F_OK), ENOENT);
              REQUIRE_ERRNO(access("/../etc", F_OK), ENOENT);
              REQUIRE_ERRNO(access(scratch.path().c_str(), F_OK), ENOENT);
              // The classic escape: chroot below, then climb.
              REQUIRE(chroot("/here") == 0);
              for (int level = 0; level < 32; ++level) REQUIRE(chdir("..") == 0);
              REQUIRE(chroot(".") == 0);
              REQUIRE_ERRNO(access("/etc", F_OK), ENOENT);
              return 0;
            }),
            0);
}

TEST(MountTest, PivotingToWhatIsNoMountIsRefused) {
  ScratchDirectory scratch;
  EXPECT_EQ(in_mount_namespace([&] {
              const UniqueFd place(open(scratch.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
              const auto refused = pivot_to(place.get());
              REQUIRE(!refused && std::string_view(refused.error().step) == "pivot root");
              REQUIRE(access("/etc", F_OK) == 0);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace pons::linux
