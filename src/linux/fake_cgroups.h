#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "pons/linux/fd.h"

namespace pons::linux {

namespace fs = std::filesystem;

// A directory tree that stands for a hierarchy: what is written into which file, and how the
// kernel's formats are read, can be seen without one.
class FakeCgroupTest : public ::testing::Test {
 protected:
  FakeCgroupTest() {
    char name[] = "/tmp/pons-cgroup-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~FakeCgroupTest() override { fs::remove_all(root_); }

  void put(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    ASSERT_TRUE(write_file_atomically(root_ + "/" + file, text, 0600));
  }
  std::string get(const std::string& file) { return read_file(root_ + "/" + file).value_or("-"); }
  void empty(const std::string& group) {
    for (const auto& entry : fs::directory_iterator(root_ + "/" + group)) fs::remove(entry);
  }
  std::string root_;
};

}  // namespace pons::linux
