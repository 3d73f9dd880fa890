#include "users.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace pons::cell {
namespace {

class UsersTest : public testing::Test {
 protected:
  UsersTest() {
    char name[] = "/tmp/pons-users-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory = name;
  }
  ~UsersTest() override { std::filesystem::remove_all(directory); }

  int find(const std::string& wanted) {
    return find_user({wanted.data(), wanted.size()}, (directory + "/passwd").c_str(),
                     (directory + "/group").c_str(), &user);
  }
  void write(const std::string& passwd, const std::string& group) {
    std::ofstream(directory + "/passwd") << passwd;
    std::ofstream(directory + "/group") << group;
  }

  std::string directory;
  User user = {};
};

TEST_F(UsersTest, RootAndNumbersNeedNoFiles) {
  EXPECT_EQ(find("root"), 0);
  EXPECT_EQ(user.uid, 0U);
  EXPECT_STREQ(user.home, "/root");
  EXPECT_EQ(find("1234"), 0);
  EXPECT_EQ(user.uid, 1234U);
  EXPECT_EQ(user.gid, 1234U);
  EXPECT_EQ(find("worker"), ENOENT);
  EXPECT_EQ(find(""), ENOENT);
}

TEST_F(UsersTest, NumbersThatMeanSomethingElseToTheKernelAreRefused) {
  EXPECT_EQ(find("4294967295"), ENOENT);
  EXPECT_EQ(find("99999999999999999999999"), ENOENT);
  EXPECT_EQ(find("-1"), ENOENT);
  EXPECT_EQ(find("0x0"), ENOENT);
}

TEST_F(UsersTest, NamesHaveTheirGroups) {
  write("root:x:0:0::/root:/bin/sh\nworker:x:1000:1001:Some One:/home/w:/bin/sh",
        "a:x:5:worker\nb:x:6:work,workers\nc:x:7:x,worker,y\nown:x:1001:worker\n");
  ASSERT_EQ(find("worker"), 0);
  EXPECT_EQ(user.uid, 1000U);
  EXPECT_STREQ(user.home, "/home/w");
  ASSERT_EQ(user.group_count, 3U);
  EXPECT_EQ(user.groups[0], 1001U);
  EXPECT_EQ(user.groups[1], 5U);
  EXPECT_EQ(user.groups[2], 7U);
  ASSERT_EQ(find("1000"), 0);
  EXPECT_STREQ(user.name, "worker");
  EXPECT_TRUE(has_user_number(1000, (directory + "/passwd").c_str()));
  EXPECT_FALSE(has_user_number(1001, (directory + "/passwd").c_str()));
}

TEST_F(UsersTest, NonsenseLinesAreSkipped) {
  write(":::\nworker\nworker:x:abc:1::/:\nworker:x:-1:1::/:\n\n" + std::string(9000, 'w') +
            ":x:1:1::/:\nworker:x:1000:1000::" + std::string(600, 'h') +
            ":/bin/sh\nworker:x:1001:1001::/h:/bin/sh\n",
        std::string(5000, ':') + "\ng:x:9:worker");
  ASSERT_EQ(find("worker"), 0);
  EXPECT_EQ(user.uid, 1001U);
  ASSERT_EQ(user.group_count, 2U);
  EXPECT_EQ(user.groups[1], 9U);
}

TEST_F(UsersTest, GroupsBeyondTheTableAreLeftOut) {
  std::string group;
  for (int i = 0; i < 500; ++i) group += "g:x:" + std::to_string(5000 + i) + ":worker\n";
  write("worker:x:1000:1000::/h:/bin/sh\n", group);
  ASSERT_EQ(find("worker"), 0);
  EXPECT_EQ(user.group_count, kGroupsMax);
}

TEST_F(UsersTest, FifoInPlaceOfTheFileDoesNotHang) {
  ASSERT_EQ(mkfifo((directory + "/passwd").c_str(), 0600), 0);
  EXPECT_EQ(find("worker"), ENOENT);
}

}  // namespace
}  // namespace pons::cell
