#pragma once

// For tests of this folder: a store in a directory that goes away, and two that use it as two
// processes would.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/memory/memory_stores.h"
#include "pons/store/sqlite_store.h"

namespace pons::memory {

inline Task<Result<std::vector<std::string>>> find_password(std::string text) {
  if (text.find("egress-is-down") != std::string::npos)
    co_return make_error(ErrorCode::kUnavailable, "redact", "egress does not answer");
  std::vector<std::string> names;
  if (text.find("hunter2") != std::string::npos) names = {"github", "github"};
  co_return names;
}

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-memory-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    one_ = open();
    two_ = open();
    start({});
    EXPECT_TRUE(run(one_->write(
        {{.sql = "INSERT INTO projects (id, name, created) VALUES ('p', 'p', 1), ('q', 'q', 1)",
          .values = {}}})));
    place_.store = run(memory_->create_store("p", {.name = "notes"})).value().id;
  }
  ~MemoryTest() override {
    one_.reset();
    two_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::unique_ptr<store::SqliteStore> open() {
    auto opened = store::SqliteStore::open(*loop_, {.path = directory_ + "/pons.db", .shown = ""});
    EXPECT_TRUE(opened) << opened.error().describe();
    return std::move(*opened);
  }
  void start(MemoryLimits limits) {
    memory_ = std::make_unique<MemoryStores>(*one_, clock_, find_password, limits);
    other_ = std::make_unique<MemoryStores>(*two_, clock_, find_password, limits);
  }
  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }

  Result<Written> try_create(std::string path, std::string content = "text",
                             Provenance provenance = Provenance::kHuman) {
    return run(memory_->create(place_, {.path = std::move(path), .content = std::move(content)},
                               by(provenance)));
  }
  Memory create(std::string path, std::string content = "text",
                Provenance provenance = Provenance::kHuman) {
    auto made = try_create(std::move(path), std::move(content), provenance);
    EXPECT_TRUE(made) << made.error().describe();
    return std::get<Memory>(made.value());
  }
  Result<Written> change(const std::string& id, MemoryChange change,
                         Provenance provenance = Provenance::kHuman) {
    return run(memory_->update(place_, id, std::move(change), by(provenance)));
  }
  std::vector<std::string> search(std::string query) {
    std::vector<std::string> paths;
    for (const Hit& hit : run(memory_->search("p", {place_.store}, std::move(query), 10)).value())
      paths.push_back(hit.memory.path);
    return paths;
  }
  std::int64_t count(const std::string& what) {
    return store::integer_of(
               run(one_->read({.sql = "SELECT count(*) FROM " + what, .values = {}})).value()[0], 0)
        .value();
  }
  static Author by(Provenance provenance) {
    return {.actor = {.kind = Actor::Kind::kApiKey, .id = "key_1"}, .provenance = provenance};
  }

  ManualClock clock_;
  std::string directory_;
  std::unique_ptr<linux::Loop> loop_;
  std::unique_ptr<store::SqliteStore> one_;
  std::unique_ptr<store::SqliteStore> two_;
  std::unique_ptr<MemoryStores> memory_;
  std::unique_ptr<MemoryStores> other_;
  Place place_{.project = "p", .store = {}};
};

}  // namespace pons::memory
