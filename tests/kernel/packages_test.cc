#include "pons/templates/packages.h"

#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <filesystem>

#include <fmt/format.h>

#include "forked.h"
#include "pons/linux/fd.h"
#include "pons/templates/program_root.h"
#include "tar_text.h"

namespace pons::templates {
namespace {

namespace fs = std::filesystem;
using linux::ScratchDirectory;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string integrity_of(std::string_view text) {
  unsigned char digest[64];
  unsigned char encoded[128];
  EXPECT_EQ(EVP_Digest(text.data(), text.size(), digest, nullptr, EVP_sha512(), nullptr), 1);
  const int size = EVP_EncodeBlock(encoded, digest, sizeof digest);
  return fmt::format("sha512-{}", std::string_view(reinterpret_cast<char*>(encoded),
                                                   static_cast<std::size_t>(size)));
}

// Archives as somebody hostile may have pinned them; npm is a script that brings what lies in
// `registry`.
class PackagesTest : public testing::Test {
 protected:
  PackagesTest() {
    for (const char* name : {"bin", "registry"}) fs::create_directory(scratch_ / name);
    EXPECT_TRUE(linux::write_file_atomically(
        scratch_ / "bin/npm",
        fmt::format("#!/bin/sh\nfor word; do case $word in --pack-destination=*) "
                    "cp {}/* \"${{word#*=}}/\";; esac; done\n",
                    scratch_ / "registry"),
        0755));
    setenv("PATH", ((scratch_ / "bin") + ":/usr/bin:/bin").c_str(), 1);
    options_.directory = "opt/harness";
    options_.limits.bytes = 1 << 20;
  }
  ~PackagesTest() override { setenv("PATH", old_path_.c_str(), 1); }

  void add(const std::string& place, const std::vector<TarEntry>& entries,
           std::vector<std::string> keep = {}) {
    const std::string archive = packed(tar_of(entries), Packing::kGzip);
    EXPECT_TRUE(linux::write_file_atomically(
        scratch_ / fmt::format("registry/{}.tgz", options_.packages.size()), archive, 0644));
    options_.packages.push_back({.name = "p",
                                 .version = "1.0.0",
                                 .integrity = integrity_of(archive),
                                 .place = place,
                                 .keep = std::move(keep)});
  }
  Result<LayerInfo> install() {
    const auto lease = store_.lease();
    auto layer = install_packages(store_, *lease, options_);
    if (layer) tree_ = store_.tree_path(layer->digest) + "/opt/harness/";
    return layer;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(tree_))
      if (!entry.is_directory()) found.push_back(fs::relative(entry.path(), tree_));
    return found;
  }
  void expect_nothing_left() const {
    for (const auto& entry : fs::directory_iterator(store_.path()))
      EXPECT_EQ(entry.path().filename(), ".lock");
  }
  mode_t mode_of(const std::string& path) const {
    struct stat status{};
    EXPECT_EQ(lstat((tree_ + path).c_str(), &status), 0) << path;
    EXPECT_EQ(status.st_uid, 0U);
    EXPECT_EQ(status.st_gid, 0U);
    return status.st_mode & 07777;
  }

  ScratchDirectory scratch_;
  std::string old_path_ = getenv("PATH");
  LayerStore store_ = *LayerStore::open(scratch_.make_directory("state"));
  PackageOptions options_;
  std::string tree_;
};

TEST_F(PackagesTest, OnlyRegularFilesStayAndTheyAreRoots) {
  add("node_modules/p", {{.path = "package/run", .content = "x", .mode = 04777, .uid = 7},
                         {.path = "package/text", .content = "x", .mode = 0600, .gid = 7},
                         {.path = "package/link", .type = '2', .target = "/etc/passwd"},
                         {.path = "package/device", .type = '3'},
                         {.path = "package/pipe", .type = '6'},
                         {.path = "package/.wh.gone"},
                         {.path = "package/deep/file", .content = "x", .mode = 0666}});
  const mode_t before = umask(077);
  const auto layer = install();
  umask(before);
  ASSERT_TRUE(layer) << layer.error().describe();
  EXPECT_THAT(files(), UnorderedElementsAre("node_modules/p/run", "node_modules/p/text",
                                            "node_modules/p/deep/file"));
  EXPECT_EQ(mode_of("node_modules/p/run"), 0755U);
  EXPECT_EQ(mode_of("node_modules/p/text"), 0644U);
  EXPECT_EQ(mode_of("node_modules/p/deep/file"), 0644U);
  for (const char* directory : {"", "..", "node_modules", "node_modules/p", "node_modules/p/deep"})
    EXPECT_EQ(mode_of(directory), 0755U) << directory;
}

TEST_F(PackagesTest, CapabilitiesOfAnArchiveDoNotStay) {
  const std::string archive =
      pax("SCHILY.xattr.user.note", "x") + tar_of({{.path = "package/run", .content = "x"}});
  const std::string bytes = packed(archive, Packing::kGzip);
  EXPECT_TRUE(linux::write_file_atomically(scratch_ / "registry/a.tgz", bytes, 0644));
  options_.packages = {{.name = "p",
                        .version = "1.0.0",
                        .integrity = integrity_of(bytes),
                        .place = "node_modules/p"}};
  ASSERT_TRUE(install());
  EXPECT_EQ(lgetxattr((tree_ + "node_modules/p/run").c_str(), "user.note", nullptr, 0), -1);
}

TEST_F(PackagesTest, APackageMayLieInAnotherAndReplacesWhatThatBrought) {
  add("node_modules/a/node_modules/b", {{.path = "package/own", .content = "x"}});
  add("node_modules/a", {{.path = "root/index", .content = "x"},
                         {.path = "root/node_modules/b/brought", .content = "x"}});
  ASSERT_TRUE(install());
  EXPECT_THAT(files(),
              UnorderedElementsAre("node_modules/a/index", "node_modules/a/node_modules/b/own"));
}

TEST_F(PackagesTest, WhatIsNotToBeKeptGoesAndTheLicenceStays) {
  add("node_modules/p",
      {{.path = "package/bin/tool", .content = "x"},
       {.path = "package/bin2/tool", .content = "x"},
       {.path = "package/exact", .content = "x"},
       {.path = "package/exactly", .content = "x"},
       {.path = "package/LICENSE.txt", .content = "x"},
       {.path = "package/package.json", .content = "{}"},
       {.path = "package/sub/LICENSE", .content = "x"}},
      {"bin/", "exact"});
  ASSERT_TRUE(install());
  EXPECT_THAT(files(),
              UnorderedElementsAre("node_modules/p/bin/tool", "node_modules/p/exact",
                                   "node_modules/p/LICENSE.txt", "node_modules/p/package.json"));
  EXPECT_FALSE(fs::exists(tree_ + "node_modules/p/sub"));
}

TEST_F(PackagesTest, TheProgramCanBeRunAndMustBeThere) {
  add("node_modules/p", {{.path = "package/tool", .content = "x", .mode = 0644}});
  options_.programs = {"node_modules/p/tool"};
  ASSERT_TRUE(install());
  EXPECT_EQ(mode_of("node_modules/p/tool"), 0755U);
  options_.programs = {"node_modules/p/tool", "node_modules/p/script.js"};
  EXPECT_THAT(install().error().message, HasSubstr("script.js"));
}

TEST_F(PackagesTest, ArchivesThatAreNoPackagesLeaveNothing) {
  const std::vector<std::vector<TarEntry>> cases = {
      {},
      {{.path = "one/a", .content = "x"}, {.path = "two/b", .content = "x"}},
      {{.path = "file", .content = "x"}},
      {{.path = "package/../../escaped", .content = "x"}},
      {{.path = "package", .type = '2', .target = "/etc"}},
      {{.path = "package/huge", .content = std::string(2 << 20, 'x')}}};
  for (const auto& entries : cases) {
    options_.packages.clear();
    add("node_modules/p", entries);
    EXPECT_FALSE(install());
    expect_nothing_left();
  }
}

TEST_F(PackagesTest, ARootForOneProgramHasItsLibrariesAndNoShell) {
  const auto lease = store_.lease();
  const auto layer = make_program_root(store_, *lease, "/bin/ls", "test");
  ASSERT_TRUE(layer) << layer.error().describe();
  const std::string root = store_.tree_path(layer->digest);
  std::size_t programs = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() ||
        (entry.status().permissions() & fs::perms::owner_exec) == fs::perms::none)
      continue;
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name.find(".so") != std::string::npos) << name;
    ++programs;
  }
  EXPECT_GE(programs, 2U);
  for (const char* place : {"dev", "proc", "sys", "run", "tmp", "workspace", "home/user"})
    EXPECT_TRUE(fs::is_directory(fmt::format("{}/{}", root, place))) << place;
  struct stat status{};
  EXPECT_EQ(stat((root + "/workspace").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 1000U);
  EXPECT_THAT(*linux::read_file(root + "/etc/passwd"), HasSubstr("user:x:1000:1000"));
}

}  // namespace
}  // namespace pons::templates
