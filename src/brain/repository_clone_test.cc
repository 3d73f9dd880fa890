#include "repository_clone.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace pons::brain {
namespace {

struct Ran {
  int code = -1;
  std::string output;
};

// The script itself with the git of this machine, on a repository beside it.
class RepositoryClone : public testing::Test {
 protected:
  RepositoryClone() {
    char name[] = "/tmp/pons-clone-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    must("mkdir source && cd source && git init -q -b main && echo one > words && git add . && " +
         kCommit);
  }
  ~RepositoryClone() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  Ran run(const std::string& script) {
    std::ofstream(directory_ + "/script") << script;
    const std::string line = "cd " + directory_ + " && HOME=" + directory_ +
                             " GIT_CONFIG_NOSYSTEM=1 sh ./script 2>&1 </dev/null";
    Ran ran;
    FILE* pipe = popen(line.c_str(), "re");
    if (pipe == nullptr) return ran;
    char bytes[4'096];
    for (std::size_t n = 0; (n = fread(bytes, 1, sizeof bytes, pipe)) > 0;)
      ran.output.append(bytes, n);
    ran.code = WEXITSTATUS(pclose(pipe));
    return ran;
  }
  std::string must(const std::string& script) {
    const Ran ran = run(script);
    EXPECT_EQ(ran.code, 0) << ran.output;
    return ran.output.substr(0, ran.output.find('\n'));
  }
  Ran clone(const std::string& folder, const std::string& branch, const std::string& commit = "") {
    return run(clone_command({.url = directory_ + "/source", .branch = branch, .commit = commit},
                             directory_ + "/" + folder));
  }
  std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(directory_ + "/" + path).rdbuf();
    return text.str();
  }
  bool exists(const std::string& path) { return std::filesystem::exists(directory_ + "/" + path); }

  const std::string kCommit = "git -c user.name=x -c user.email=x@example.com commit -q -m words";
  std::string directory_;
};

TEST_F(RepositoryClone, ItIsThereAsItsBranchIs) {
  const Ran ran = clone("place", "main");
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(read("place/words"), "one\n");
}

TEST_F(RepositoryClone, ACommitThatIsMissingIsThereOnceItIs) {
  // The commit that is to come has an id already.
  must("cp -r source later && cd later && echo two > words && git add . && " + kCommit);
  const std::string commit = must("cd later && git rev-parse HEAD");
  const Ran missing = clone("place", "", commit);
  EXPECT_NE(missing.code, 0);
  EXPECT_NE(missing.output.find(commit), std::string::npos) << missing.output;
  EXPECT_FALSE(exists("place"));
  must("cd source && git fetch -q ../later main:later");
  const Ran there = clone("place", "", commit);
  ASSERT_EQ(there.code, 0) << there.output;
  EXPECT_EQ(read("place/words"), "two\n");
}

TEST_F(RepositoryClone, WhatAnAttemptLeftIsInNoWay) {
  must("mkdir place && echo half > place/words");
  const Ran ran = clone("place", "main");
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(read("place/words"), "one\n");
  EXPECT_NE(clone("place", "none").code, 0);
  EXPECT_FALSE(exists("place"));
}

TEST_F(RepositoryClone, AnyPathIsOneWord) {
  const Ran ran = clone("it's a; touch x $(touch y)", "main");
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(read("it's a; touch x $(touch y)/words"), "one\n");
  EXPECT_FALSE(exists("x") || exists("y"));
}

TEST_F(RepositoryClone, OnlyItsHostIsShownWhatStandsForTheToken) {
  ASSERT_EQ(clone("place", "main").code, 0);
  const auto asked = [&](const std::string& host) {
    return run("cd place && printf 'protocol=https\\nhost=" + host +
               "\\n\\n' | GITHUB_TOKEN=stub GIT_TERMINAL_PROMPT=0 git credential fill")
        .output;
  };
  EXPECT_NE(asked("github.com").find("password=stub"), std::string::npos) << asked("github.com");
  EXPECT_EQ(asked("example.com").find("stub"), std::string::npos) << asked("example.com");
  EXPECT_EQ(read("place/.git/config").find("stub"), std::string::npos);
}

}  // namespace
}  // namespace pons::brain
