#include "sandbox_bills.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "brain_fixture.h"
#include "pons/base/json.h"
#include "recorded_hands.h"

namespace pons::brain {
namespace {

using ::testing::ElementsAre;

// Hands that do nothing, well or badly.
class IdleHands final : public session::Hands {
 public:
  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder) override {
    if (!works) co_return make_error(ErrorCode::kUnavailable, "provision", "no");
    ++provisioned;
    co_return session::ProvisionReport{.contents = "a machine"};
  }
  Task<Result<void>> copy(session::CopyOrder) override { co_return {}; }
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder) override {
    co_return session::ExecuteReport{};
  }
  Task<Result<void>> stop(std::string, std::string) override { co_return {}; }
  Task<Result<void>> destroy(std::string) override {
    if (!works) co_return make_error(ErrorCode::kUnavailable, "destroy", "no");
    co_return {};
  }
  bool works = true;
  int provisioned = 0;
};

class SandboxBillsTest : public BrainTest {
 protected:
  SandboxBillsTest() {
    gateway_ = std::make_unique<http::Server>(
        *loop_, http::ServerLimits{},
        http::route({{"POST", "/sandbox-time",
                      [this](http::Exchange& exchange, const http::PathValues&) -> Task<> {
                        told_.push_back((co_await exchange.read_whole_body(1 << 20)).value_or(""));
                        exchange.respond({.status = status_, .body = "{}"});
                      }},
                     {"POST", "/sandbox-time/running",
                      [this](http::Exchange& exchange, const http::PathValues&) -> Task<> {
                        running_ = (co_await exchange.read_whole_body(1 << 20)).value_or("");
                        exchange.respond({.body = R"({"limited":["default"]})"});
                      }},
                     {"POST", "/sandbox-time/admissions",
                      [this](http::Exchange& exchange, const http::PathValues&) -> Task<> {
                        asked_.push_back((co_await exchange.read_whole_body(1 << 20)).value_or(""));
                        exchange.respond(is_spent_
                                             ? http::error_response(429, "limit", "it is spent")
                                             : http::Response{.body = "{}"});
                      }}}));
    if (!gateway_->listen(std::move(*linux::listen_unix(socket_of("gateway"), 0600)), "brain"))
      std::abort();
    bills_ = std::make_unique<SandboxBills>(
        *loop_, http::unix_connector(*loop_, socket_of("gateway")), memory_->records, clock_);
  }
  ~SandboxBillsTest() override {
    bills_.reset();
    gateway_.reset();
  }

  void record(SandboxRecord::What what, const std::string& id, std::int64_t at_ms) {
    const auto refused = run(memory_->records.keep({{.what = what,
                                                     .id = id,
                                                     .project_id = "default",
                                                     .at_ms = at_ms,
                                                     .sandbox_template = "host",
                                                     .metadata = "{}",
                                                     .reason = "killed"}}));
    ASSERT_TRUE(refused && refused->empty());
  }
  std::size_t unpaid() { return run(memory_->records.list_unpaid(100))->size(); }

  int status_ = 200;
  bool is_spent_ = false;
  std::vector<std::string> told_;
  std::vector<std::string> asked_;
  std::string running_;
  std::unique_ptr<http::Server> gateway_;
  std::unique_ptr<SandboxBills> bills_;
};

TEST_F(SandboxBillsTest, ASandboxThatHasEndedIsToldOfOnce) {
  record(SandboxRecord::What::kCreate, "sbx_a", 1'000);
  EXPECT_EQ(run(bills_->send_some()).value(), 0U) << "it runs";
  record(SandboxRecord::What::kEnd, "sbx_a", 62'500);
  EXPECT_EQ(run(bills_->send_some()).value(), 1U);
  EXPECT_EQ(run(bills_->send_some()).value(), 0U);
  EXPECT_THAT(told_, ElementsAre(R"([{"id":"sbx_a","project":"default","seconds":62}])"));
}

TEST_F(SandboxBillsTest, WhatTheGatewayDidNotTakeIsToldAgain) {
  record(SandboxRecord::What::kCreate, "sbx_a", 5'000);
  record(SandboxRecord::What::kEnd, "sbx_a", 4'000);  // a clock that went back
  status_ = 503;
  EXPECT_FALSE(run(bills_->send_some()));
  EXPECT_EQ(unpaid(), 1U);
  status_ = 200;
  EXPECT_EQ(run(bills_->send_some()).value(), 1U);
  EXPECT_EQ(unpaid(), 0U);
  EXPECT_THAT(told_.back(), ::testing::HasSubstr("\"seconds\":1}"));
}

TEST_F(SandboxBillsTest, WhatRunsIsToldAsASumOfWhoHasIt) {
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
          .count();
  record(SandboxRecord::What::kCreate, "sbx_a", now - 100'000);
  record(SandboxRecord::What::kCreate, "sbx_b", now - 100'000);
  record(SandboxRecord::What::kCreate, "sbx_c", 1'000);
  record(SandboxRecord::What::kEnd, "sbx_c", 6'000);  // and is not paid for yet
  ASSERT_TRUE(run(store_->write({{.sql = "INSERT INTO sessions (id, project_id, agent, parent_id, "
                                         "title, status, ended, head, epoch, owner, lease_until, "
                                         "created, updated, input_tokens, cache_read_tokens, "
                                         "cache_write_tokens, output_tokens, cost_nano) VALUES "
                                         "('ses_1', 'default', 'writer', '', '', 'idle', '', 0, 1, "
                                         "'', 0, 0, 0, 0, 0, 0, 0, 0)",
                                  .values = {}}})));
  IdleHands idle;
  RecordedHands hands(idle, memory_->records, clock_, bills_.get());
  ASSERT_TRUE(run(hands.provision({.sandbox = "sbx_s",
                                   .sandbox_template = "host",
                                   .environment = {},
                                   .session = "ses_1",
                                   .project = "default"})));
  ASSERT_TRUE(run(bills_->tell_running()));
  const Json told = *parse_json(running_);
  ASSERT_EQ(told.size(), 2U) << running_;
  EXPECT_FALSE(told[0].contains("agent"));
  EXPECT_GE(told[0]["seconds"], 205);
  EXPECT_LE(told[0]["seconds"], 300);
  EXPECT_EQ(told[1]["agent"], "writer");
  EXPECT_GE(told[1]["seconds"], 1) << "it has only begun";
  // In the end its agent pays.
  ASSERT_TRUE(run(hands.destroy("sbx_s")));
  ASSERT_TRUE(run(bills_->send_some()));
  const Json bill = *parse_json(told_.back());
  ASSERT_EQ(bill.size(), 2U) << told_.back();
  EXPECT_EQ(bill[1]["id"], "sbx_s");
  EXPECT_EQ(bill[1]["agent"], "writer");
  EXPECT_FALSE(bill[0].contains("agent"));
}

TEST_F(SandboxBillsTest, NoSandboxIsMadeForWhichABudgetHasNoRoom) {
  IdleHands idle;
  RecordedHands hands(idle, memory_->records, clock_, bills_.get());
  const auto provision = [&](const char* sandbox) {
    return run(hands.provision({.sandbox = sandbox,
                                .sandbox_template = "host",
                                .environment = {},
                                .session = "ses_1",
                                .project = "default"}));
  };
  EXPECT_TRUE(provision("sbx_a"));
  is_spent_ = true;
  const auto refused = provision("sbx_b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
  EXPECT_EQ(refused.error().message, "it is spent");
  EXPECT_EQ(idle.provisioned, 1);
  const auto copied = run(hands.copy({.sandbox = "sbx_c",
                                      .from = "sbx_a",
                                      .checkpoint = {},
                                      .sandbox_template = "host",
                                      .session = "ses_1",
                                      .project = "default"}));
  EXPECT_FALSE(copied);
  EXPECT_TRUE(provision("sbx_a")) << "one that is there may be used on";
  EXPECT_EQ(asked_.size(), 3U);
}

TEST_F(SandboxBillsTest, NobodyIsAskedForProjectsWithoutLimits) {
  ASSERT_TRUE(run(bills_->tell_running()));
  is_spent_ = true;
  EXPECT_TRUE(run(bills_->may_begin({.id = "sbx_a", .project = "free"})));
  EXPECT_TRUE(asked_.empty());
  EXPECT_FALSE(run(bills_->may_begin({.id = "sbx_a", .project = "default"})));
  EXPECT_THAT(asked_, ElementsAre(R"({"project":"default"})"));
}

TEST_F(SandboxBillsTest, ARecordOfTheFrontIsRefusedWhenABudgetHasNoRoom) {
  memory_->bills = bills_.get();
  const auto create = [&](const char* id) {
    return ask("front", "POST", "/sandbox-records",
               std::string(R"([{"op":"end","id":"sbx_z","project":"default","reason":"x"},)") +
                   R"({"op":"create","project":"default","template":"base","id":")" + id + "\"}]");
  };
  EXPECT_EQ(create("sbx_a").text, "{\"stored\":2,\"refused\":[]}\n");
  is_spent_ = true;
  const Json refused = *parse_json(create("sbx_b").text);
  EXPECT_EQ(refused["stored"], 1);
  ASSERT_EQ(refused["refused"].size(), 1U);
  EXPECT_EQ(refused["refused"][0]["index"], 1);
  EXPECT_EQ(refused["refused"][0]["type"], "limit");
  EXPECT_EQ(refused["refused"][0]["message"], "it is spent");
  EXPECT_EQ(create("sbx_a").text, "{\"stored\":2,\"refused\":[]}\n") << "it is there";
  EXPECT_EQ(run(memory_->records.list_open(""))->size(), 1U);
}

TEST_F(SandboxBillsTest, SandboxesOfSessionsAreOnRecordFromBeginningToEnd) {
  IdleHands idle;
  RecordedHands hands(idle, memory_->records, clock_);
  const session::ProvisionOrder order{.sandbox = "sbx_s",
                                      .sandbox_template = "host",
                                      .environment = {},
                                      .session = "ses_1",
                                      .project = "default"};
  idle.works = false;
  EXPECT_FALSE(run(hands.provision(order)));
  EXPECT_TRUE(run(memory_->records.list_open(""))->empty());
  idle.works = true;
  for (int twice = 0; twice < 2; ++twice) EXPECT_TRUE(run(hands.provision(order)));
  EXPECT_EQ(run(memory_->records.list_open(""))->size(), 1U);
  idle.works = false;
  EXPECT_FALSE(run(hands.destroy("sbx_s")));
  EXPECT_EQ(unpaid(), 0U);
  idle.works = true;
  for (int twice = 0; twice < 2; ++twice) EXPECT_TRUE(run(hands.destroy("sbx_s")));
  EXPECT_TRUE(run(hands.destroy("sbx_never_seen")));
  EXPECT_EQ(unpaid(), 1U);
}

}  // namespace
}  // namespace pons::brain
