#include "sandbox_bills.h"

#include <gmock/gmock.h>

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
  std::vector<std::string> told_;
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
