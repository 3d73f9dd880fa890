#include "span_export.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/gateway/otlp_headers.h"
#include "pons/linux/run_task.h"

namespace pons::gateway {
namespace {

using telemetry::Span;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<Span> some_spans(std::size_t count) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < count; ++i)
    spans.push_back({.trace_id = telemetry::trace_id_of("t"),
                     .span_id = telemetry::span_id_of(std::to_string(i)),
                     .name = "chat"});
  return spans;
}

class SpanExportTest : public ::testing::Test {
 protected:
  SpanExportTest()
      : loop_(std::move(*linux::Loop::create())),
        spans_(*loop_, [this](std::string body) { return answer(std::move(body)); }) {}

  // The collector: its answers, one after the other; the last one stays.
  Task<Result<SpanExport::Reply>> answer(std::string body) {
    const Json json = Json::parse(body);
    batches_.push_back(json.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans").size());
    const auto reply = replies_.front();
    if (replies_.size() > 1) replies_.erase(replies_.begin());
    co_return reply;
  }

  // Runs until nothing waits any more.
  void settle() {
    linux::TaskGroup work(*loop_);
    work.spawn(spans_.run());
    EXPECT_TRUE(linux::run_to_end(*loop_, flushed()));
  }
  Task<bool> flushed() {
    co_await spans_.flush(loop_->now() + std::chrono::seconds(20));
    co_return true;
  }

  Task<bool> asked(std::size_t times) {
    while (batches_.size() < times) co_await loop_->sleep_for(std::chrono::milliseconds(10));
    co_return true;
  }

  std::string figures() const {
    telemetry::Page page;
    spans_.write_metrics(page);
    return page.text();
  }

  std::unique_ptr<linux::Loop> loop_;
  SpanExport spans_;
  std::vector<Result<SpanExport::Reply>> replies_ = {SpanExport::Reply{.status = 200}};
  std::vector<std::size_t> batches_;
};

TEST_F(SpanExportTest, ManySpansLeaveInBatches) {
  spans_.add(some_spans(SpanExport::kBatchMax + 10));
  spans_.add(some_spans(5));
  settle();
  EXPECT_THAT(batches_, ElementsAre(SpanExport::kBatchMax, 15));
  EXPECT_THAT(figures(), AllOf(HasSubstr("{outcome=\"sent\"} 527\n"),
                               HasSubstr("pons_trace_spans_waiting 0\n")));
}

TEST_F(SpanExportTest, WhatThereIsNoRoomForIsCounted) {
  for (int i = 0; i < 20; ++i) spans_.add(some_spans(500));
  EXPECT_THAT(figures(), AllOf(HasSubstr("{outcome=\"no_room\"} 1808\n"),
                               HasSubstr("pons_trace_spans_waiting 8192\n")));
  settle();
  EXPECT_THAT(figures(), HasSubstr("{outcome=\"sent\"} 8192\n"));
}

TEST_F(SpanExportTest, WhatTheCollectorRefusesIsNotSentAgain) {
  replies_ = {SpanExport::Reply{.status = 400}};
  spans_.add(some_spans(3));
  settle();
  EXPECT_THAT(batches_, ElementsAre(3));
  EXPECT_THAT(figures(), HasSubstr("{outcome=\"refused\"} 3\n"));
}

TEST_F(SpanExportTest, APartThatIsRejectedIsCounted) {
  replies_ = {
      SpanExport::Reply{.status = 200, .body = R"({"partialSuccess":{"rejectedSpans":"2"}})"}};
  spans_.add(some_spans(3));
  settle();
  EXPECT_THAT(figures(),
              AllOf(HasSubstr("{outcome=\"refused\"} 2\n"), HasSubstr("{outcome=\"sent\"} 1\n")));
}

TEST_F(SpanExportTest, AtTheEndNobodyWaitsForACollectorThatIsAway) {
  replies_ = {make_error(ErrorCode::kUnavailable, "send", "away")};
  spans_.add(some_spans(3));
  settle();
  EXPECT_THAT(batches_, ElementsAre(3));
  EXPECT_THAT(figures(), AllOf(HasSubstr("{outcome=\"unreachable\"} 3\n"),
                               HasSubstr("pons_trace_request_failures_total 1\n")));
}

TEST_F(SpanExportTest, ABusyCollectorIsAskedAgain) {
  replies_ = {SpanExport::Reply{.status = 503}, SpanExport::Reply{.status = 200}};
  spans_.add(some_spans(3));
  linux::TaskGroup work(*loop_);
  work.spawn(spans_.run());
  EXPECT_TRUE(linux::run_to_end(*loop_, asked(2)));
  EXPECT_THAT(batches_, ElementsAre(3, 3));
}

TEST(OtlpHeadersTest, FieldsAreReadAsTheVariableHasThem) {
  const auto fields = read_otlp_headers(" Authorization=Bearer%20x%2Cy , x-tenant=me=too\n");
  ASSERT_TRUE(fields) << fields.error().describe();
  EXPECT_THAT(*fields,
              ElementsAre(Pair("Authorization", "Bearer x,y"), Pair("x-tenant", "me=too")));
}

TEST(OtlpHeadersTest, WhatIsNoFieldIsRefusedWithoutShowingIt) {
  for (const char* text : {"", "secret", "a b=secret", "x=%0d%0asecret", "x=%zzsecret",
                           "Host=secret", "content-length=secret", "=secret"}) {
    const auto fields = read_otlp_headers(text);
    ASSERT_FALSE(fields) << text;
    EXPECT_EQ(fields.error().describe().find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace pons::gateway
