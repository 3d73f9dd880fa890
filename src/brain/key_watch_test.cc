#include "key_watch.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "brain_fixture.h"
#include "pons/base/json.h"
#include "token_door.h"

namespace pons::brain {
namespace {

class OpenBell final : public store::Bell {
 public:
  void ring(std::string topic) override { rung.push_back(std::move(topic)); }
  void listen(Listener) override {}
  bool is_open() const override { return true; }
  std::vector<std::string> rung;
};

// The fixture's brain hears of another one, which changes the same store.
class KeyWatchTest : public BrainTest {
 protected:
  KeyWatchTest()
      : other_keys_(*store_, clock_),
        door_(*loop_, *feed_, &bell_),
        tokens_(*store_, clock_, door_),
        watch_(*loop_, memory_->keys, memory_->projects, *feed_, bell_,
               [this] { return tokens_.keep_up(); }),
        watching_(*loop_) {
    watching_.spawn(watch_.keep_looking());
  }
  ~KeyWatchTest() override { watching_.cancel_all(); }

  Task<bool> let_pass(Duration time) {
    co_await loop_->sleep_for(time);
    co_return true;
  }
  void look() {
    watch_.look();
    (void)run(let_pass(std::chrono::milliseconds(100)));
  }
  Json body() const { return parse_json(feed_->body()).value(); }
  bool has(const std::string& id) const { return feed_->has(id, "default"); }
  std::string make_elsewhere() {
    return run(other_keys_.create("default", "ci", default_scopes())).value().key.id;
  }

  OpenBell bell_;
  ApiKeys other_keys_;
  KeyFeedDoor door_;
  managed::SessionTokens tokens_;
  KeyWatch watch_;
  linux::TaskGroup watching_;
};

TEST_F(KeyWatchTest, KeysThatAnotherBrainMakesAreGoodAndThoseThatItRevokesAreNot) {
  const std::string id = make_elsewhere();
  look();
  EXPECT_TRUE(has(id));
  ASSERT_TRUE(run(other_keys_.revoke(id)));
  look();
  EXPECT_FALSE(has(id));
}

TEST_F(KeyWatchTest, WhatIsTheSameIsNoNews) {
  make_elsewhere();
  look();
  const std::string before = feed_->generation();
  look();
  EXPECT_EQ(feed_->generation(), before);
}

TEST_F(KeyWatchTest, AKeyThatWasRefusedHereStaysRefusedThoughTheStoreDoesNotKnowYet) {
  const std::string id = make_elsewhere();
  look();
  feed_->remove(id);  // the store has not answered
  look();
  EXPECT_FALSE(has(id));
}

TEST_F(KeyWatchTest, LimitsThatAnotherBrainSetsAndLiftsHoldHere) {
  Projects others(*store_, clock_);
  ASSERT_TRUE(run(others.change_limits("default", {.requests_per_second = 7})));
  look();
  EXPECT_EQ(body().at("requests_per_second"), Json({{"default", 7}}));
  ASSERT_TRUE(run(others.change_limits(
      "default", {.requests_per_second = std::make_optional(std::optional<std::int64_t>())})));
  look();
  EXPECT_TRUE(body().at("requests_per_second").empty());
}

TEST_F(KeyWatchTest, TokensOfWorkersOutliveALookAtKeys) {
  ASSERT_TRUE(run(tokens_.create("default", "ses_1", "work_1")));
  make_elsewhere();
  look();
  EXPECT_EQ(body().at("keys").size(), 2U);
}

TEST_F(KeyWatchTest, TokensThatAnotherBrainMakesAreGoodUntilItEndsThem) {
  KeyFeed other_feed(*loop_, {});
  OpenBell other_bell;
  KeyFeedDoor other_door(*loop_, other_feed, &other_bell);
  managed::SessionTokens others(*store_, clock_, other_door);
  ASSERT_TRUE(run(others.create("default", "ses_1", "work_1")));
  EXPECT_EQ(other_bell.rung.size(), 1U) << "this one hears of it";
  look();
  ASSERT_EQ(body().at("keys").size(), 1U);
  EXPECT_EQ(body().at("keys")[0].at("session"), "ses_1 work_1");
  ASSERT_TRUE(run(others.end("work_1")));
  EXPECT_EQ(other_bell.rung.size(), 2U);
  look();
  EXPECT_TRUE(body().at("keys").empty());
}

}  // namespace
}  // namespace pons::brain
