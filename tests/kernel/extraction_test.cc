#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <filesystem>

#include "extract.h"
#include "forked.h"
#include "pons/base/text.h"
#include "pons/linux/capabilities.h"
#include "tar_text.h"

namespace pons::templates {
namespace {

using linux::ScratchDirectory;
using linux::UniqueFd;

UniqueFd file_with(const std::string& bytes) {
  UniqueFd file(memfd_create("archive", MFD_CLOEXEC));
  EXPECT_TRUE(linux::write_all(file.get(), bytes));
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

// A directory to unpack into, and beside it what an attacker would like to change.
class ExtractionTest : public testing::Test {
 protected:
  ExtractionTest() {
    stage_ = scratch_.make_directory("stage");
    scratch_.make_directory("host");
    EXPECT_TRUE(linux::write_file_atomically(victim(), "untouched", 0644));
  }
  ~ExtractionTest() override {
    EXPECT_EQ(linux::read_file(victim()).value_or("gone"), "untouched");
    struct stat status{};
    EXPECT_EQ(stat(victim().c_str(), &status), 0);
    EXPECT_EQ(status.st_nlink, 1U);
    EXPECT_EQ(status.st_mode & 07777, 0644U);
    std::size_t beside = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(scratch_ / "host"))
      ++beside;
    EXPECT_EQ(beside, 1U) << "something was created outside";
  }

  Result<Extracted> extract(const std::string& bytes, TreeLimits limits = {.bytes = 64 << 20}) {
    const UniqueFd input = file_with(bytes);
    return extract_tar(input.get(), stage_, limits, {});
  }
  Result<Extracted> extract(const std::vector<TarEntry>& entries) {
    return extract(tar_of(entries));
  }
  std::string victim() const { return scratch_ / "host/victim"; }
  std::string inside(const std::string& path) const { return stage_ + "/" + path; }
  struct stat status_of(const std::string& path) const {
    struct stat status{};
    EXPECT_EQ(lstat(inside(path).c_str(), &status), 0) << path;
    return status;
  }
  bool exists(const std::string& path) const {
    struct stat status{};
    return lstat(inside(path).c_str(), &status) == 0;
  }

  ScratchDirectory scratch_;
  std::string stage_;
};

TEST_F(ExtractionTest, KeepsContentOwnersModesAndLinks) {
  const auto done = extract({{.path = "./", .type = '5', .mode = 0755},
                             {.path = "bin/", .type = '5', .mode = 0750, .uid = 7, .gid = 8},
                             {.path = "bin/su", .content = "x", .mode = 04755, .uid = 0},
                             {.path = "bin/again", .type = '1', .target = "bin/su"},
                             {.path = "etc/link", .type = '2', .target = "../bin/su", .uid = 5}});
  ASSERT_TRUE(done) << done.error().describe();
  EXPECT_EQ(status_of("bin").st_mode & 07777, 0750U);
  EXPECT_EQ(status_of("bin").st_uid, 7U);
  EXPECT_EQ(status_of("bin").st_gid, 8U);
  EXPECT_EQ(status_of("bin/su").st_mode & 07777, 04755U);
  EXPECT_EQ(status_of("bin/su").st_ino, status_of("bin/again").st_ino);
  EXPECT_EQ(status_of("bin/su").st_mtime, 1'700'000'000);
  EXPECT_EQ(status_of("etc/link").st_uid, 5U);
  EXPECT_EQ(std::filesystem::read_symlink(inside("etc/link")), "../bin/su");
}

TEST_F(ExtractionTest, ReadsPlainGzipAndZstdAndTellsTheDigestOfTheTar) {
  const std::string tar = tar_of({{.path = "file", .content = std::string(100'000, 'z')}});
  for (const std::string& bytes : {tar, packed(tar, Packing::kGzip), packed(tar, Packing::kZstd)}) {
    const auto done = extract(bytes);
    ASSERT_TRUE(done) << done.error().describe();
    EXPECT_EQ(done->tar_digest, sha256_hex(tar));
    EXPECT_EQ(status_of("file").st_size, 100'000);
  }
}

TEST_F(ExtractionTest, DotDotIsRefused) {
  for (const char* path : {"../host/victim", "a/../../host/victim", "..", "a/.."})
    EXPECT_FALSE(extract({{.path = path, .content = "owned"}})) << path;
}

TEST_F(ExtractionTest, AnAbsolutePathLandsInside) {
  ASSERT_TRUE(extract({{.path = victim(), .content = "owned"}}));
  EXPECT_TRUE(exists(victim().substr(1)));
}

TEST_F(ExtractionTest, LinksAsParentsLeadNowhereElse) {
  for (const std::string& target :
       {scratch_ / "host", std::string("../../../../../..") + scratch_.path() + "/host",
        std::string("/proc/self/root") + scratch_.path() + "/host"}) {
    // Either way is good: refused, or written below the stage. The destructor looks outside.
    (void)extract({{.path = "way", .type = '2', .target = target},
                   {.path = "way/victim", .content = "owned"},
                   {.path = "way/fresh", .content = "owned"}});
    std::filesystem::remove_all(stage_);
    std::filesystem::create_directory(stage_);
  }
}

TEST_F(ExtractionTest, ALinkInPlaceOfTheFileIsReplacedAndNotFollowed) {
  ASSERT_TRUE(extract({{.path = "file", .type = '2', .target = victim()},
                       {.path = "file", .content = "mine", .mode = 0600}}));
  EXPECT_TRUE(S_ISREG(status_of("file").st_mode));
}

TEST_F(ExtractionTest, HardLinksReachOnlyTheLayer) {
  EXPECT_FALSE(extract({{.path = "steal", .type = '1', .target = victim()}}));
  EXPECT_FALSE(extract({{.path = "steal", .type = '1', .target = "../host/victim"}}));
  EXPECT_FALSE(extract({{.path = "way", .type = '2', .target = scratch_ / "host"},
                        {.path = "steal", .type = '1', .target = "way/victim"}}));
  EXPECT_FALSE(exists("steal"));
  // A hard link to a symbolic link, written through by its second name.
  ASSERT_TRUE(extract({{.path = "one", .type = '2', .target = victim()},
                       {.path = "two", .type = '1', .target = "one"},
                       {.path = "two", .content = "owned"}}));
  EXPECT_TRUE(S_ISREG(status_of("two").st_mode));
}

TEST_F(ExtractionTest, DevicesPipesAndSocketsAreLeftOut) {
  const auto done = extract({{.path = "disk", .type = '4'},
                             {.path = "null", .type = '3'},
                             {.path = "pipe", .type = '6'},
                             {.path = "file", .content = "x"}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->counts.skipped, 3U);
  for (const char* name : {"disk", "null", "pipe"}) EXPECT_FALSE(exists(name)) << name;
  EXPECT_TRUE(exists("file"));
}

TEST_F(ExtractionTest, WhiteoutsBecomeDevicesAndOpaqueMarks) {
  ASSERT_TRUE(extract({{.path = "etc/.wh.gone"},
                       {.path = "var/", .type = '5'},
                       {.path = "var/.wh..wh..opq"},
                       {.path = "var/.wh..wh.plnk"},
                       {.path = "var/kept", .content = "x"}}));
  EXPECT_TRUE(S_ISCHR(status_of("etc/gone").st_mode));
  EXPECT_EQ(status_of("etc/gone").st_rdev, makedev(0, 0));
  char mark = 0;
  EXPECT_EQ(getxattr(inside("var").c_str(), "user.overlay.opaque", &mark, 1), 1);
  EXPECT_EQ(mark, 'y');
  EXPECT_TRUE(exists("var/kept"));
  EXPECT_FALSE(exists("var/.wh..wh..opq"));
  EXPECT_FALSE(exists("var/.wh..wh.plnk"));
}

TEST_F(ExtractionTest, ADirectoryOverAWhiteoutHidesWhatIsBelow) {
  ASSERT_TRUE(extract({{.path = ".wh.data"}, {.path = "data/", .type = '5', .mode = 0755}}));
  char mark = 0;
  EXPECT_EQ(getxattr(inside("data").c_str(), "user.overlay.opaque", &mark, 1), 1);
}

TEST_F(ExtractionTest, WhiteoutsCannotNameParents) {
  for (const char* path : {".wh.", ".wh..", "a/.wh...", "../.wh.victim"})
    EXPECT_FALSE(extract({{.path = path}})) << path;
}

TEST_F(ExtractionTest, NamesOfAnyBytesAndLengthWork) {
  const std::string bytes = "not-utf8-\xff\xfe\x80";
  const std::string wide = "gr\xC3\xBC\xC3\x9F";
  const std::string longest(255, 'n');
  ASSERT_TRUE(extract({{.path = bytes, .content = "1"},
                       {.path = wide, .content = "2"},
                       {.path = "d/" + longest, .content = "3"},
                       {.path = "link", .type = '2', .target = bytes}}));
  EXPECT_TRUE(exists(bytes));
  EXPECT_TRUE(exists(wide));
  EXPECT_TRUE(exists("d/" + longest));
  EXPECT_EQ(std::filesystem::read_symlink(inside("link")).string(), bytes);
  ASSERT_TRUE(extract(pax("path", "pax-" + wide) + tar_of({{.path = "short", .content = "4"}})));
  EXPECT_TRUE(exists("pax-" + wide));
  EXPECT_FALSE(extract({{.path = std::string(256, 'n'), .content = "x"}}));
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += "d/";
  EXPECT_FALSE(extract({{.path = deep + "file", .content = "x"}}));
}

TEST_F(ExtractionTest, OnlyHarmlessAttributesAreTaken) {
  const std::string capability(
      "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
      "\x00\x00\x00\x00",
      20);
  std::string tar;
  tar += pax("SCHILY.xattr.user.note", "kept") + tar_entry({.path = "noted", .content = "x"});
  tar += pax("SCHILY.xattr.user.overlay.redirect", "/etc/shadow") +
         tar_entry({.path = "redirected", .content = "x"});
  tar += pax("SCHILY.xattr.trusted.overlay.metacopy", "y") +
         tar_entry({.path = "metacopy", .content = "x"});
  tar += pax("SCHILY.xattr.security.capability", capability) +
         tar_entry({.path = "ping", .content = "x", .mode = 0755});
  const auto done = extract(tar + std::string(1024, '\0'));
  ASSERT_TRUE(done) << done.error().describe();
  char value[64];
  EXPECT_EQ(getxattr(inside("noted").c_str(), "user.note", value, sizeof value), 4);
  EXPECT_LT(listxattr(inside("redirected").c_str(), value, sizeof value), 1);
  EXPECT_LT(listxattr(inside("metacopy").c_str(), value, sizeof value), 1);
  EXPECT_EQ(getxattr(inside("ping").c_str(), "security.capability", value, sizeof value), 20);
}

TEST_F(ExtractionTest, OwnersThatASandboxLacksBecomeNobody) {
  const auto done = extract({{.path = "file", .content = "x", .uid = 100'000, .gid = 3}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->counts.foreign_owners, 1U);
  EXPECT_EQ(status_of("file").st_uid, 65534U);
  EXPECT_EQ(status_of("file").st_gid, 3U);
}

TEST_F(ExtractionTest, BombsEndAtTheLimit) {
  const std::string zeros = tar_of({{.path = "big", .content = std::string(32 << 20, '\0')}});
  const auto large = extract(packed(zeros, Packing::kZstd), {.bytes = 1 << 20});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kLimit);
  const auto claimed = extract({{.path = "sparse", .claimed_size = 07777777777ULL}});
  EXPECT_FALSE(claimed);
  std::vector<TarEntry> many;
  for (int i = 0; i < 50; ++i) many.push_back({.path = "f" + std::to_string(i)});
  const auto numerous = extract(tar_of(many), {.files = 20, .bytes = 1 << 20});
  ASSERT_FALSE(numerous);
  EXPECT_EQ(numerous.error().code, ErrorCode::kLimit);
}

TEST_F(ExtractionTest, DamagedArchivesAreErrors) {
  const std::string tar = tar_of({{.path = "file", .content = std::string(5000, 'x')}});
  EXPECT_FALSE(extract(std::string("no archive at all")));
  EXPECT_FALSE(extract(std::string()));
  EXPECT_FALSE(extract(tar.substr(0, 3000)));
  std::string gzip = packed(tar, Packing::kGzip);
  EXPECT_FALSE(extract(gzip.substr(0, gzip.size() / 2)));
}

TEST_F(ExtractionTest, AnInterruptStopsIt) {
  auto pipe = linux::create_pipe();
  ASSERT_TRUE(pipe && linux::write_all(pipe->write_end.get(), "x"));
  const auto stopped = extract(tar_of({{.path = "file"}}), {.interrupt_fd = pipe->read_end.get()});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kUnavailable);
}

// What an attacker could do who has taken over the process that unpacks.
TEST_F(ExtractionTest, TheUnpackingProcessReachesNothing) {
  auto report = linux::create_pipe();
  ASSERT_TRUE(report);
  const UniqueFd input = file_with("x");
  const std::string outside = victim();
  auto jail = Jail::start(stage_, input.get(), report->write_end.get(), [&] {
    REQUIRE(access(outside.c_str(), F_OK) != 0);
    REQUIRE(access("/proc", F_OK) != 0);
    REQUIRE(getpid() == 1);
    REQUIRE_ERRNO(execl("/bin/sh", "sh", nullptr), EPERM);
    REQUIRE_ERRNO(socket(AF_INET, SOCK_STREAM, 0), EPERM);
    REQUIRE_ERRNO(chroot("."), EPERM);
    REQUIRE_ERRNO(static_cast<int>(syscall(SYS_mount, "x", "/", "tmpfs", 0, nullptr)), EPERM);
    REQUIRE_ERRNO(static_cast<int>(syscall(SYS_unshare, 0)), EPERM);
    REQUIRE_ERRNO(mknod("/disk", S_IFBLK | 0600, makedev(7, 0)), EPERM);
    REQUIRE_ERRNO(fcntl(5, F_GETFD), EBADF);
    const auto rights = linux::current_capabilities();
    REQUIRE(rights && (rights->bounding & linux::capability(21 /* CAP_SYS_ADMIN */)) == 0);
    return 0;
  });
  ASSERT_TRUE(jail);
  EXPECT_EQ(jail->wait(), 0);
}

}  // namespace
}  // namespace pons::templates
