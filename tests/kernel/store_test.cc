#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "forked.h"
#include "pons/linux/loop.h"
#include "pons/linux/mount.h"
#include "pons/linux/namespace.h"
#include "pons/linux/run_task.h"
#include "pons/store/sqlite_store.h"
#include "pons/store/store_file.h"

namespace pons::store {
namespace {

using linux::in_forked_child;
using linux::ScratchDirectory;

// The store on a disk of its own, which a test can fill and make room on.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path)
      : path_(std::move(path)), loop_(std::move(*linux::Loop::create())) {
    if (auto opened = SqliteStore::open(*loop_, {.path = file(), .shown = ""}))
      store_ = std::move(*opened);
  }
  bool is_open() const { return store_ != nullptr; }
  void close() { store_.reset(); }
  std::string file() const { return path_ + "/pons.db"; }

  // Takes what room there is, but for so many bytes.
  void fill(std::size_t left = 0) {
    const std::string path = path_ + "/ballast";
    {
      std::ofstream ballast(path, std::ios::app);
      const std::string piece(4096, 'b');
      while (ballast << piece << std::flush) {
      }
    }
    if (left > 0) std::filesystem::resize_file(path, std::filesystem::file_size(path) - left);
  }
  void make_room() { unlink((path_ + "/ballast").c_str()); }

  Result<std::vector<Outcome>> add(const std::string& id, std::size_t bytes) {
    return run(store_->write({{.sql = "INSERT INTO projects (id, name, created) VALUES ($1, $2, 1)",
                               .values = {id, id + std::string(bytes, 'n')}}}));
  }
  std::int64_t count() {
    const auto rows = run(store_->read({.sql = "SELECT count(*) FROM projects", .values = {}}));
    return rows ? std::get<std::int64_t>((*rows)[0][0]) : -1;
  }
  Result<void> copy() { return run(store_->copy_to(path_ + "/copy.db")); }

 private:
  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }

  std::string path_;
  std::unique_ptr<linux::Loop> loop_;
  std::unique_ptr<SqliteStore> store_;
};

int on_small_disk(const std::function<int(SmallDisk&)>& body) {
  ScratchDirectory scratch;
  return in_forked_child([&] {
    REQUIRE(linux::unshare_namespaces({linux::NamespaceKind::kMount}));
    REQUIRE(linux::make_mounts_private());
    REQUIRE(mount("tmpfs", scratch.path().c_str(), "tmpfs", 0, "size=4m") == 0);
    SmallDisk disk(scratch.path());
    REQUIRE(disk.is_open());
    return body(disk);
  });
}

TEST(StoreOnDiskTest, AFullDiskFailsTheWriteAndNothingElse) {
  EXPECT_EQ(on_small_disk([](SmallDisk& disk) {
              REQUIRE(disk.add("before", 1000));
              disk.fill();
              int stored = 1, refused = 0;
              for (int i = 0; i < 100; ++i) {
                const auto done = disk.add("full" + std::to_string(i), 100'000);
                if (done) {
                  ++stored;
                  continue;
                }
                ++refused;
                REQUIRE(done.error().code == ErrorCode::kUnavailable);
                REQUIRE(done.error().message.find("is full") != std::string::npos);
              }
              REQUIRE(refused > 90);
              REQUIRE(disk.count() == stored);
              disk.make_room();
              REQUIRE(disk.add("after", 100'000));
              REQUIRE(disk.count() == stored + 1);
              disk.close();
              REQUIRE(check_store_file(disk.file()));
              return 0;
            }),
            0);
}

TEST(StoreOnDiskTest, ASmallWriteFitsWhereALargeOneDidNot) {
  EXPECT_EQ(on_small_disk([](SmallDisk& disk) {
              disk.fill(600'000);
              REQUIRE(!disk.add("large", 900'000));
              REQUIRE(disk.add("small", 10));
              return 0;
            }),
            0);
}

TEST(StoreOnDiskTest, ACopyThatDoesNotFitFailsAndTheStoreGoesOn) {
  EXPECT_EQ(on_small_disk([](SmallDisk& disk) {
              REQUIRE(disk.add("a", 500'000));
              disk.fill();
              const auto copied = disk.copy();
              REQUIRE(!copied);
              REQUIRE(copied.error().code == ErrorCode::kUnavailable);
              disk.make_room();
              REQUIRE(disk.add("b", 10));
              REQUIRE(disk.count() == 2);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace pons::store
