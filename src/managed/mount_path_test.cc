#include "mount_path.h"

#include <gtest/gtest.h>

namespace pons::managed {
namespace {

bool is_fine(const std::string& path) {
  const Json value = path;
  return check_mount_path({.value = value, .pointer = "/mount_path"}, path).has_value();
}

TEST(MountPath, IsOnePlaceAndNoOther) {
  for (const char* path : {"/mnt/session/uploads/a", "/home/user/data.csv", "/a", "/a b/c..d/.e",
                           "/mnt/süß", "/devices/x", "/var/lib/ponson"})
    EXPECT_TRUE(is_fine(path)) << path;
  for (const char* path : {"", "/", "a", "a/b", "./a", "../a", "/a/../b", "/a/./b", "/..", "/a/..",
                           "//a", "/a//b", "/a/", "/a\nb", "/a\x7f"})
    EXPECT_FALSE(is_fine(path)) << path;
  EXPECT_FALSE(is_fine("/" + std::string(256, 'a')));
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "/abcde";
  EXPECT_FALSE(is_fine(deep));
}

TEST(MountPath, IsNoneOfTheKernelsAndNoneOfOurs) {
  for (const char* path : {"/proc/1/mem", "/proc", "/sys/x", "/dev/null", "/var/lib/pons",
                           "/var/lib/pons/session-files.json"})
    EXPECT_FALSE(is_fine(path)) << path;
}

TEST(MountPath, TwoFilesCannotBeBelowEachOther) {
  EXPECT_TRUE(are_in_each_others_way("/a/b", "/a/b"));
  EXPECT_TRUE(are_in_each_others_way("/a", "/a/b"));
  EXPECT_TRUE(are_in_each_others_way("/a/b/c", "/a"));
  EXPECT_FALSE(are_in_each_others_way("/a/b", "/a/bc"));
  EXPECT_FALSE(are_in_each_others_way("/a/b", "/a/c"));
}

}  // namespace
}  // namespace pons::managed
