#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "pons/telemetry/merge.h"
#include "pons/telemetry/page.h"
#include "pons/telemetry/span.h"

namespace pons::telemetry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Type = Page::Type;

TEST(PageTest, AMetricOfTwoPartsStandsInOnePlace) {
  Page page;
  page.begin("a_total", Type::kCounter, "Of a.");
  page.add({{"part", "one"}}, 1);
  page.gauge("b", "Of b.", 2.5);
  page.begin("a_total", Type::kCounter, "Of a.");
  page.add({{"part", "two"}}, 3);
  EXPECT_EQ(page.text(),
            "# HELP a_total Of a.\n# TYPE a_total counter\n"
            "a_total{part=\"one\"} 1\na_total{part=\"two\"} 3\n"
            "# HELP b Of b.\n# TYPE b gauge\nb 2.5\n");
}

TEST(PageTest, AValueCannotBreakOutOfItsLabel) {
  Page page;
  page.begin("a", Type::kGauge, "Of a.");
  page.add({{"x", "q\"uote\\ \nline 9"}}, 1);
  page.add({{"x", "\xff"}}, 2);
  page.add({{"x", std::string(200, 'x')}}, 3);
  EXPECT_THAT(page.text(), AllOf(HasSubstr("a{x=\"q\\\"uote\\\\ \\nline 9\"} 1\n"),
                                 HasSubstr("a{x=\"other\"} 2\n"), HasSubstr("a{x=\"other\"} 3\n")));
}

TEST(PageTest, AHistogramCountsUpToEachBound) {
  using namespace std::chrono_literals;
  static constexpr std::array<Duration, 2> kBounds = {1ms, 1s};
  Histogram histogram(kBounds);
  for (const Duration took : {Duration(1ms), Duration(2ms), Duration(3ms), Duration(2s)})
    histogram.observe(took);
  Page page;
  page.begin("t_seconds", Type::kHistogram, "Of t.");
  page.add({{"x", "y"}}, histogram);
  EXPECT_EQ(page.text(),
            "# HELP t_seconds Of t.\n# TYPE t_seconds histogram\n"
            "t_seconds_bucket{x=\"y\",le=\"0.001\"} 1\nt_seconds_bucket{x=\"y\",le=\"1\"} 3\n"
            "t_seconds_bucket{x=\"y\",le=\"+Inf\"} 4\nt_seconds_sum{x=\"y\"} 2.006\n"
            "t_seconds_count{x=\"y\"} 4\n");
}

TEST(SeriesTest, WhatComesTooLateIsCountedTogether) {
  Series<Counter> series(2);
  series.at({"a", "1"}).add();
  series.at({"b", "1"}).add();
  for (int i = 0; i < 1'000; ++i) series.at({std::to_string(i), "x"}).add();
  series.at({"a", "1"}).add();
  ASSERT_EQ(series.all().size(), 3UZ);
  EXPECT_EQ(series.at({"a", "1"}).value(), 2U);
  EXPECT_EQ(series.at({"other", "other"}).value(), 1'000U);
}

std::string merged(std::string_view text) {
  Page all;
  if (!merge_page(all, "brain", text)) return "refused";
  return all.text();
}

constexpr const char* kPage =
    "# HELP a_total Of a.\n# TYPE a_total counter\na_total 1\na_total{x=\"y\\\"}\",z=\"\"} 2.5\n";

TEST(MergeTest, EverySampleSaysWhoseItIs) {
  EXPECT_EQ(merged(kPage),
            "# HELP a_total Of a.\n# TYPE a_total counter\n"
            "a_total{role=\"brain\"} 1\na_total{role=\"brain\",x=\"y\\\"}\",z=\"\"} 2.5\n");
}

TEST(MergeTest, WhatOurOwnPagesHaveIsTaken) {
  Page page;
  Histogram histogram(short_bounds());
  histogram.observe(std::chrono::milliseconds(3));
  page.begin("t_seconds", Type::kHistogram, "Of t.");
  page.add({{"x", "a\\b\"c\nd"}}, histogram);
  page.gauge("g", "Of g.", -1e-9);
  EXPECT_THAT(
      merged(page.text()),
      AllOf(HasSubstr("t_seconds_bucket{role=\"brain\",x=\"a\\\\b\\\"c\\nd\",le=\"+Inf\"} 1"),
            HasSubstr("g{role=\"brain\"} -1e-09\n")));
}

TEST(MergeTest, TwoProcessesShareOneHead) {
  Page all;
  ASSERT_TRUE(merge_page(all, "brain", kPage));
  ASSERT_TRUE(merge_page(all, "front", kPage));
  const std::string text = all.text();
  EXPECT_EQ(text.find("# HELP", 1), std::string::npos);
  EXPECT_THAT(text, HasSubstr("a_total{role=\"front\"} 1\n"));
}

TEST(MergeTest, APageThatLiesOrIsBrokenIsRefusedAsAWhole) {
  const std::string head = "# HELP a A.\n# TYPE a gauge\n";
  for (const std::string& bad : {std::string(),
                                 std::string("a 1\n"),
                                 head + "a 1",
                                 head + "b 1\n",
                                 head + "a x\n",
                                 head + "a 1 2\n",
                                 head + "a{role=\"front\"} 1\n",
                                 head + "a{x=\"y\",role=\"front\"} 1\n",
                                 head + "a{x=\"y\" 1\n",
                                 head + "a{x=\"\\q\"} 1\n",
                                 head + "a{x=y} 1\n",
                                 head + "a{} 1\n",
                                 head + "a_sum 1\n",
                                 head + "a 1\n" + head + "a 2\n",
                                 head + "\n",
                                 head + "a{x=\"\xff\"} 1\n",
                                 std::string("# HELP a A.\n# TYPE b gauge\na 1\n"),
                                 std::string("# HELP a A.\n"),
                                 std::string("# HELP A A.\n# TYPE A gauge\nA 1\n"),
                                 std::string("# HELP a A.\n# TYPE a summary\na 1\n")})
    EXPECT_EQ(merged(bad), "refused") << bad;
}

Span a_span() {
  return {.trace_id = trace_id_of("ses_1:2"),
          .span_id = span_id_of("ses_1:3"),
          .parent_id = span_id_of("ses_1:2"),
          .name = "chat smart",
          .kind = Span::Kind::kClient,
          .begun_ms = 1'700'000'000'123,
          .ended_ms = 1'700'000'000'456,
          .attributes = {{"gen_ai.request.model", "smart"},
                         {"gen_ai.usage.input_tokens", std::int64_t{42}},
                         {"gen_ai.response.time_to_first_chunk", 0.5},
                         {"gen_ai.response.finish_reasons", std::vector<std::string>{"end_turn"}}},
          .failed = true};
}

TEST(SpanTest, IdsAreTheSameWheneverTheyAreMade) {
  EXPECT_EQ(trace_id_of("ses_1:2"), trace_id_of("ses_1:2"));
  EXPECT_NE(trace_id_of("ses_1:2"), trace_id_of("ses_1:3"));
  EXPECT_EQ(trace_id_of("x").size(), 32UZ);
  EXPECT_EQ(span_id_of("x").size(), 16UZ);
}

TEST(SpanTest, ARoleReadsWhatAnotherWrote) {
  const auto read = read_spans(dump_json(to_json({a_span(), a_span()})));
  ASSERT_TRUE(read) << read.error().describe();
  EXPECT_THAT(*read, ::testing::ElementsAre(a_span(), a_span()));
}

TEST(SpanTest, WhatIsNoSpanIsRefused) {
  Json good = to_json({a_span()});
  const auto with = [&](const char* key, Json value) {
    Json bad = good;
    bad["spans"][0][key] = std::move(value);
    return dump_json(bad);
  };
  EXPECT_TRUE(read_spans(dump_json(good)));
  for (const std::string& bad :
       {std::string("{}"), std::string("[]"), std::string("{\"spans\":7}"), with("trace", "xyz"),
        with("trace", std::string(32, 'G')), with("span", 7), with("parent", "00"),
        with("name", std::string(600, 'x')), with("begun", -1), with("begun", "1"),
        with("more", "x"), with("attributes", Json::array()),
        with("attributes", {{"x", {{"y", 1}}}}), with("attributes", {{"x", nullptr}})})
    EXPECT_FALSE(read_spans(bad)) << bad;
}

TEST(SpanTest, OtlpHasTheShapeOfItsProtocolBuffers) {
  const Json json = Json::parse(write_otlp({a_span()}, "1.2.3"));
  const Json& resource = json.at("resourceSpans").at(0);
  EXPECT_EQ(resource.at("resource").at("attributes").at(0),
            Json({{"key", "service.name"}, {"value", {{"stringValue", "pons"}}}}));
  const Json& span = resource.at("scopeSpans").at(0).at("spans").at(0);
  EXPECT_EQ(span.at("traceId"), trace_id_of("ses_1:2"));
  EXPECT_EQ(span.at("parentSpanId"), span_id_of("ses_1:2"));
  EXPECT_EQ(span.at("kind"), 3);
  EXPECT_EQ(span.at("startTimeUnixNano"), "1700000000123000000");
  EXPECT_EQ(span.at("status").at("code"), 2);
  EXPECT_EQ(span.at("attributes").at(1).at("value").at("intValue"), "42");
  EXPECT_EQ(span.at("attributes").at(2).at("value").at("doubleValue"), 0.5);
  EXPECT_EQ(span.at("attributes").at(3).at("value").at("arrayValue").at("values").at(0),
            Json({{"stringValue", "end_turn"}}));
}

TEST(SpanTest, TheFirstOfATraceHasNoParent) {
  Span root = a_span();
  root.parent_id.clear();
  root.failed = false;
  const Json json = Json::parse(write_otlp({root}, "1"));
  const Json& span = json.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans").at(0);
  EXPECT_FALSE(span.contains("parentSpanId"));
  EXPECT_TRUE(span.at("status").empty());
}

}  // namespace
}  // namespace pons::telemetry
