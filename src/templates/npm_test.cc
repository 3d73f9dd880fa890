#include "npm.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "pons/linux/fd.h"

namespace pons::templates {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string integrity_of(std::string_view text) {
  unsigned char digest[64];
  unsigned size = 0;
  EXPECT_EQ(EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha512(), nullptr), 1);
  unsigned char encoded[128];
  return fmt::format(
      "sha512-{}",
      std::string_view(reinterpret_cast<char*>(encoded),
                       static_cast<std::size_t>(EVP_EncodeBlock(encoded, digest, 64))));
}

// A directory with a program `npm` that the test writes.
class NpmTest : public testing::Test {
 protected:
  NpmTest() {
    char name[] = "/tmp/pons-npm-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    path_ = name;
    fs::create_directories(path_ + "/registry");
    setenv("PATH", (path_ + "/bin:/usr/bin:/bin").c_str(), 1);
  }
  ~NpmTest() override {
    setenv("PATH", old_path_.c_str(), 1);
    fs::remove_all(path_);
  }

  void write(const std::string& name, const std::string& text, mode_t mode = 0644) {
    fs::create_directories(fs::path(path_ + "/" + name).parent_path());
    EXPECT_TRUE(linux::write_file_atomically(path_ + "/" + name, text, mode));
  }
  // It brings what lies in `registry`, and writes down how it was called.
  void write_npm(const std::string& more = "") {
    write("bin/npm",
          fmt::format("#!/bin/sh\necho \"$*\" >{0}/called\n{1}\n"
                      "for word; do case $word in --pack-destination=*) "
                      "cp {0}/registry/* \"${{word#*=}}/\";; esac; done\n",
                      path_, more),
          0755);
  }
  std::string called() const { return linux::read_file(path_ + "/called").value_or(""); }
  auto fetch(PackageOptions options) { return fetch_archives(options, path_ + "/work"); }
  static PackageOptions asking_for(std::vector<std::pair<std::string, std::string>> contents) {
    PackageOptions options{.directory = "opt/harness"};
    for (const auto& [name, content] : contents)
      options.packages.push_back({.name = name,
                                  .version = "1.2.3",
                                  .integrity = integrity_of(content),
                                  .place = "node_modules/" + name});
    return options;
  }

  std::string path_;
  std::string old_path_ = getenv("PATH");
};

TEST(Integrity, IsASha512InBase64AndNothingElse) {
  const std::string good = integrity_of("text");
  EXPECT_EQ(read_integrity(good)->size(), 64U);
  for (const std::string& bad :
       {std::string(), std::string("sha512-"), std::string("sha1-") + good.substr(7),
        good.substr(7), good + "=", good + " " + good, good.substr(0, 40)})
    EXPECT_FALSE(read_integrity(bad)) << bad;
}

TEST_F(NpmTest, WhatIsFetchedIsKnownByItsDigest) {
  write_npm();
  write("registry/whatever-1.tgz", "first");
  write("registry/other.tgz", "second");
  const auto archives = fetch(asking_for({{"one", "first"}, {"@scope/two", "second"}}));
  ASSERT_TRUE(archives) << archives.error().describe();
  EXPECT_EQ(archives->size(), 2U);
  EXPECT_EQ(*linux::read_file(archives->at(*read_integrity(integrity_of("first")))), "first");
  EXPECT_THAT(called(), AllOf(HasSubstr("--ignore-scripts"), HasSubstr("@scope/two@1.2.3"),
                              HasSubstr("--cache=" + path_ + "/work/cache")));
  EXPECT_FALSE(fs::exists(path_ + "/work/cache"));
}

TEST_F(NpmTest, AnotherArchiveThanTheOneThatWasTestedIsRefusedByName) {
  write_npm();
  write("registry/one.tgz", "first");
  write("registry/two.tgz", "tampered with");
  const auto refused = fetch(asking_for({{"one", "first"}, {"two", "second"}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kDenied);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("two@1.2.3"), Not(HasSubstr("one@1.2.3"))));
}

TEST_F(NpmTest, WithoutNpmTheErrorSaysHowToGetIt) {
  setenv("PATH", (path_ + "/nothing:.:").c_str(), 1);
  const auto refused = fetch(asking_for({{"one", "first"}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("apt install npm"));
}

TEST_F(NpmTest, WhatNpmComplainsAboutIsTold) {
  write_npm(
      fmt::format("echo 'npm warn old' >&2; echo 'npm error code E404' >&2; "
                  "echo 'npm error A complete log is in {}/work/cache' >&2; exit 1",
                  path_));
  const auto refused = fetch(asking_for({{"one", "first"}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(refused.error().message, "npm error code E404");
}

TEST_F(NpmTest, AnInterruptEndsNpmAndWhatItStarted) {
  write_npm("sleep 600 & echo $! >" + path_ + "/child; wait");
  const auto pipe = linux::create_pipe();
  std::jthread interrupts([&] {
    while (linux::read_file(path_ + "/child").value_or("").empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(linux::write_all(pipe->write_end.get(), "x"));
  });
  PackageOptions options = asking_for({{"one", "first"}});
  options.limits.interrupt_fd = pipe->read_end.get();
  const auto refused = fetch(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  const int child = std::stoi(*linux::read_file(path_ + "/child"));
  // One that has ended has no words, also while nobody has asked how.
  const auto words = [&] {
    return linux::read_file(fmt::format("/proc/{}/cmdline", child)).value_or("");
  };
  for (int i = 0; i < 2000 && !words().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(words(), "");
}

TEST_F(NpmTest, HowMuchIsThereIsToldAgainstWhatIsToCome) {
  write_npm(fmt::format("head -c 300 /dev/zero >{}/work/cache/part; sleep 0.5", path_));
  write("registry/one.tgz", "first");
  PackageOptions options = asking_for({{"one", "first"}});
  options.packages[0].bytes = 1000;
  Progress last;
  options.progress = [&](const Progress& progress) { last = progress; };
  ASSERT_TRUE(fetch(options));
  EXPECT_EQ(last.done, 300U);
  EXPECT_EQ(last.total, 1000U);
}

TEST(CheckPackages, TakesPlainNamesOneVersionAndPathsInside) {
  const auto check = [](NpmPackage package) {
    package.integrity = integrity_of("x");
    return check_packages({.directory = "opt/harness", .packages = {std::move(package)}});
  };
  const NpmPackage good{.name = "@scope/a.b-c_d", .version = "1.2.3-linux-x64", .place = "n/@s/a"};
  EXPECT_TRUE(check(good));
  for (const char* name : {"", "-g", "--registry", "a b", "a/b", "@a", "@a/", "@/a", "@a/b/c",
                           "../a", ".a", "a;b", "git+ssh", "a:b"}) {
    NpmPackage bad = good;
    bad.name = name;
    EXPECT_FALSE(check(bad)) << name;
  }
  for (const char* version : {"", "^1.0.0", "latest", "1 || 2", "npm:x@1", "http://x", ">=1"}) {
    NpmPackage bad = good;
    bad.version = version;
    EXPECT_FALSE(check(bad)) << version;
  }
  for (const char* place : {"", "/a", "a/../b", "..", "a//b", "a/", "a/./b", "a b"}) {
    NpmPackage bad = good;
    bad.place = place;
    EXPECT_FALSE(check(bad)) << place;
  }
  EXPECT_FALSE(check_packages({.directory = "opt/harness"}));
  EXPECT_FALSE(check_packages({.directory = "/opt", .packages = {good}}));
}

}  // namespace
}  // namespace pons::templates
