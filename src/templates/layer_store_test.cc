#include "pons/templates/layer_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "pons/templates/host_layer.h"
#include "pons/templates/import.h"

namespace pons::templates {
namespace {

namespace fs = std::filesystem;

class LayerStoreTest : public testing::Test {
 protected:
  LayerStoreTest() {
    char name[] = "/tmp/pons-layers-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    path_ = name;
    fs::create_directory(path_ + "/state");
  }
  ~LayerStoreTest() override { fs::remove_all(path_); }

  static void write(const std::string& path, const std::string& text, mode_t mode = 0644) {
    fs::create_directories(fs::path(path).parent_path());
    EXPECT_TRUE(linux::write_file_atomically(path, text, mode));
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
  }
  LayerStore store() const { return *LayerStore::open(path_ + "/state"); }
  static LayerInfo publish(const LayerStore& store, const std::string& name,
                           const std::string& text) {
    const auto lease = store.lease();
    auto staged = store.stage(*lease);
    write(staged->get() + "/fs/" + name, text);
    auto info = store.publish(std::move(*staged), "test");
    EXPECT_TRUE(info);
    return info.value_or(LayerInfo{});
  }

  std::string path_;
};

TEST_F(LayerStoreTest, TheSameContentTwiceIsOneLayer) {
  const LayerStore layers = store();
  const LayerInfo first = publish(layers, "a", "text");
  const LayerInfo again = publish(layers, "a", "text");
  EXPECT_EQ(first.digest, again.digest);
  EXPECT_EQ(first.created_unix_ms, again.created_unix_ms);
  EXPECT_NE(first.digest, publish(layers, "b", "text").digest);
  EXPECT_NE(first.digest, publish(layers, "a", "other").digest);
  EXPECT_EQ(layers.list()->size(), 3U);
  EXPECT_EQ(layers.find(first.digest)->value().bytes, 4U);
}

TEST_F(LayerStoreTest, TheDigestSeesModesLinksAndDoublesButNoTimes) {
  const std::string tree = path_ + "/tree";
  write(tree + "/file", "text");
  const auto digest = [&] {
    const auto fd = linux::open_file(tree, O_RDONLY | O_DIRECTORY);
    return digest_tree(fd->get(), OpaqueMarks::kRead)->digest;
  };
  const std::string before = digest();
  const timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
  ASSERT_EQ(utimensat(AT_FDCWD, (tree + "/file").c_str(), times, 0), 0);
  EXPECT_EQ(digest(), before);
  chmod((tree + "/file").c_str(), 0600);
  EXPECT_NE(digest(), before);
  chmod((tree + "/file").c_str(), 0644);
  fs::create_symlink("file", tree + "/link");
  const std::string with_link = digest();
  EXPECT_NE(with_link, before);
  fs::remove(tree + "/link");
  fs::create_symlink("elsewhere", tree + "/link");
  EXPECT_NE(digest(), with_link);
  fs::remove(tree + "/link");
  fs::create_hard_link(tree + "/file", tree + "/double");
  const std::string linked = digest();
  fs::remove(tree + "/double");
  write(tree + "/double", "text");
  EXPECT_NE(digest(), linked);
}

TEST_F(LayerStoreTest, ATreeWithAPipeIsRefusedAndNotWaitedFor) {
  fs::create_directory(path_ + "/tree");
  ASSERT_EQ(mkfifo((path_ + "/tree/pipe").c_str(), 0644), 0);
  const auto fd = linux::open_file(path_ + "/tree", O_RDONLY | O_DIRECTORY);
  EXPECT_FALSE(digest_tree(fd->get(), OpaqueMarks::kRead));
}

TEST_F(LayerStoreTest, GarbageIsWhatNobodyNeedsAndWhatAKilledBuildLeft) {
  const LayerStore layers = store();
  const LayerInfo needed = publish(layers, "a", "needed");
  const LayerInfo garbage = publish(layers, "a", "garbage");
  write(layers.path() + "/.tmp-killed/fs/file", "half");
  const auto collected = layers.collect({needed.digest});
  ASSERT_TRUE(collected);
  EXPECT_EQ(collected->layers, std::vector{garbage.digest});
  EXPECT_EQ(collected->leftovers, 1U);
  EXPECT_TRUE(layers.find(needed.digest)->has_value());
  EXPECT_FALSE(layers.find(garbage.digest)->has_value());
  EXPECT_FALSE(fs::exists(layers.path() + "/.tmp-killed"));
}

TEST_F(LayerStoreTest, WhatAKilledBuildLeftGoesWithoutTheGarbageButNotUnderABuild) {
  const LayerStore layers = store();
  const LayerInfo layer = publish(layers, "a", "whole");
  const std::string left = layers.path() + "/.tmp-killed";
  write(left + "/fs/file", "half");
  {
    const auto lease = layers.lease();
    EXPECT_TRUE(layers.remove_leftovers());
    EXPECT_TRUE(fs::exists(left));
  }
  EXPECT_TRUE(layers.remove_leftovers());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(layers.find(layer.digest)->has_value());
}

TEST_F(LayerStoreTest, YoungLayersCanBeSpared) {
  const LayerStore layers = store();
  const LayerInfo layer = publish(layers, "a", "of a template that is not known yet");
  ASSERT_TRUE(layers.collect({}, std::chrono::hours(1)));
  EXPECT_TRUE(layers.find(layer.digest)->has_value());
}

TEST_F(LayerStoreTest, NothingIsCollectedWhileABuildRuns) {
  const LayerStore layers = store();
  const LayerInfo layer = publish(layers, "a", "fresh");
  {
    const auto lease = layers.lease();
    const auto other = layers.lease();
    EXPECT_TRUE(lease && other);
    const auto refused = layers.collect({});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
    EXPECT_TRUE(layers.find(layer.digest)->has_value());
  }
  EXPECT_TRUE(layers.collect({}));
}

TEST_F(LayerStoreTest, AnAbandonedStagingDirectoryIsGone) {
  const LayerStore layers = store();
  std::string where;
  {
    const auto lease = layers.lease();
    const auto staged = layers.stage(*lease);
    where = staged->get();
    write(where + "/fs/deep/file", "x");
    EXPECT_TRUE(fs::exists(where));
  }
  EXPECT_FALSE(fs::exists(where));
}

TEST_F(LayerStoreTest, DigestsThatAreNoneDoNotBecomePaths) {
  EXPECT_FALSE(store().find("../../etc"));
  EXPECT_FALSE(store().find(std::string(64, 'A')));
  for (const char* name : {"", "../x", "A", "-x", ".x", "a/b", "a b"})
    EXPECT_FALSE(is_template_name(name)) << name;
  EXPECT_TRUE(is_template_name("python3.12_slim-x"));
}

class HostLayerTest : public LayerStoreTest {
 protected:
  HostLayerTest() {
    host_ = path_ + "/host";
    fs::create_directories(host_ + "/usr/bin");
    fs::create_directory_symlink("usr/bin", host_ + "/bin");
    fs::create_directory(host_ + "/lib");
    write(host_ + "/usr/bin/bash", "");
    write(host_ + "/etc/services", "ssh 22/tcp\n");
    write(host_ + "/etc/timezone", "secret", 0640);
    write(host_ + "/etc/shadow", "root:hash", 0644);
    write(host_ + "/etc/environment", "TOKEN=x", 0644);
    write(host_ + "/etc/ssl/certs/ca.pem", "certificate");
    write(host_ + "/etc/ssl/certs/server.key", "key", 0644);
    fs::create_symlink("../../../root/.ssh/id", host_ + "/etc/ssl/certs/stolen.pem");
    fs::create_symlink("/usr/share/ca.crt", host_ + "/etc/ssl/certs/shared.pem");
    write(host_ + "/etc/passwd", "alice:x:1000:1000::/home/alice:/bin/sh\n");
  }
  std::string ensure() const {
    auto layer = ensure_host_layer(path_ + "/state", host_);
    EXPECT_TRUE(layer) << (layer ? "" : layer.error().describe());
    return layer.value_or("");
  }
  std::string host_;
};

TEST_F(HostLayerTest, HoldsWhatProgramsNeedAndNoSecret) {
  const std::string tree = ensure();
  EXPECT_EQ(*linux::read_file(tree + "/etc/services"), "ssh 22/tcp\n");
  EXPECT_EQ(*linux::read_file(tree + "/etc/ssl/certs/ca.pem"), "certificate");
  EXPECT_EQ(fs::read_symlink(tree + "/etc/ssl/certs/shared.pem"), "/usr/share/ca.crt");
  EXPECT_EQ(fs::read_symlink(tree + "/bin"), "usr/bin");
  EXPECT_TRUE(fs::is_directory(tree + "/lib"));
  EXPECT_FALSE(fs::exists(tree + "/lib32"));
  const std::string passwd = *linux::read_file(tree + "/etc/passwd");
  EXPECT_NE(passwd.find("user:x:1000:1000:user:/home/user:/bin/bash"), std::string::npos);
  EXPECT_EQ(passwd.find("alice"), std::string::npos);
  for (const char* path : {"/etc/timezone", "/etc/shadow", "/etc/environment",
                           "/etc/ssl/certs/server.key", "/etc/ssl/certs/stolen.pem"})
    EXPECT_FALSE(fs::exists(fs::symlink_status(tree + path))) << path;
  struct stat status{};
  ASSERT_EQ(stat((tree + "/tmp").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 01777U);
  ASSERT_EQ(stat((tree + "/root").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700U);
}

TEST_F(HostLayerTest, IsMadeAgainOnlyWhenTheHostHasChanged) {
  const std::string first = ensure();
  struct stat before{};
  ASSERT_EQ(stat(first.c_str(), &before), 0);
  EXPECT_EQ(ensure(), first);
  struct stat after{};
  ASSERT_EQ(stat(first.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  write(host_ + "/etc/services", "http 80/tcp\n");
  const std::string second = ensure();
  EXPECT_NE(second, first);
  EXPECT_TRUE(fs::exists(first)) << "sandboxes may still stand on it";
  const fs::path link = path_ + "/state/spawner/layers/host";
  EXPECT_EQ(fs::canonical(link / "fs"), fs::canonical(second));
}

TEST_F(HostLayerTest, OldOnesDoNotPileUp) {
  for (int i = 0; i < 8; ++i) {
    write(host_ + "/etc/services", std::to_string(i));
    ensure();
  }
  std::size_t skeletons = 0;
  for (const auto& entry : fs::directory_iterator(path_ + "/state/spawner/layers"))
    if (entry.path().filename().string().starts_with("host-")) ++skeletons;
  EXPECT_EQ(skeletons, 4U);
}

}  // namespace
}  // namespace pons::templates
