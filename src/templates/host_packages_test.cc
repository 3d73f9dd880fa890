#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "skeleton.h"

namespace pons::templates {
namespace {

class HostPackagesTest : public testing::Test {
 protected:
  HostPackagesTest() {
    char name[] = "/tmp/pons-host-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    root_ = name;
  }
  ~HostPackagesTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  void write(const std::string& path, const std::string& text, mode_t mode = 0644) {
    const std::filesystem::path place = root_ + "/" + path;
    std::filesystem::create_directories(place.parent_path());
    std::ofstream(place) << text;
    chmod(place.c_str(), mode);
  }
  Skeleton packages() {
    Skeleton skeleton;
    EXPECT_TRUE(add_host_packages(skeleton, root_));
    return skeleton;
  }

  std::string root_;
};

TEST_F(HostPackagesTest, WhatIsInstalledAndWhereItComesFromIsThere) {
  write("var/lib/dpkg/status", "Package: bash\n");
  write("etc/apt/sources.list", "deb https://me:secret@a.example/debian x main\n");
  write("etc/apt/sources.list.d/b.sources", "URIs: http://b.example\n");
  write("etc/apt/sources.list.d/c.list.save", "deb http://c.example x\n");
  const Skeleton skeleton = packages();
  EXPECT_EQ(skeleton.at("var/lib/dpkg/status").content, "Package: bash\n");
  EXPECT_EQ(skeleton.at("etc/apt/sources.list").content, "deb https://a.example/debian x main\n");
  EXPECT_EQ(skeleton.at("etc/apt/sources.list.d/b.sources").content, "URIs: http://b.example\n");
  EXPECT_FALSE(skeleton.contains("etc/apt/sources.list.d/c.list.save"));
  for (const auto& [path, entry] : skeleton)
    if (const auto slash = path.rfind('/'); slash != std::string::npos)
      EXPECT_TRUE(skeleton.contains(path.substr(0, slash))) << path;
}

TEST_F(HostPackagesTest, WhatNotEverybodyMayReadIsNot) {
  write("var/lib/dpkg/status", "Package: bash\n");
  write("etc/apt/sources.list", "deb http://a.example x\n", 0600);
  write("etc/apt/sources.list.d/d.list", "deb http://d.example x\n");
  write("etc/apt/auth.conf", "machine a.example password p\n");
  std::filesystem::create_symlink("/etc/shadow", root_ + "/etc/apt/sources.list.d/f.list");
  const Skeleton skeleton = packages();
  for (const char* path :
       {"etc/apt/sources.list", "etc/apt/sources.list.d/f.list", "etc/apt/auth.conf"})
    EXPECT_FALSE(skeleton.contains(path)) << path;
  EXPECT_TRUE(skeleton.contains("etc/apt/sources.list.d/d.list"));
}

TEST_F(HostPackagesTest, AHostWithoutAptHasNoneOfIt) {
  write("etc/apt/sources.list", "deb http://a.example x\n");
  EXPECT_TRUE(packages().empty());
}

}  // namespace
}  // namespace pons::templates
