#include "metrics.h"

#include <gmock/gmock.h>

namespace pons::egress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

audit::Decision decision(audit::Verdict verdict, std::string code, std::string protocol = "h2") {
  audit::Decision made;
  made.verdict = verdict;
  made.code = std::move(code);
  made.protocol = std::move(protocol);
  made.bytes_in = 10;
  made.bytes_out = 100;
  made.sandbox = "secret-sandbox";
  made.host = "secret-host.example";
  made.path = "/secret-path";
  made.credentials = {"SECRET_NAME"};
  return made;
}

std::string text_of(const Metrics& metrics, const Metrics::State& state = {}) {
  telemetry::Page page;
  metrics.write(page, state);
  return page.text();
}

TEST(MetricsTest, EveryVerdictIsCountedByItsCode) {
  Metrics metrics;
  for (int i = 0; i < 3; ++i) metrics.count(decision(audit::Verdict::kBlock, "host_not_allowed"));
  metrics.count(decision(audit::Verdict::kSwap, ""));
  metrics.count(decision(audit::Verdict::kInert, "stub_inert"));
  metrics.count(decision(audit::Verdict::kDrop, "host_not_allowed", "dns"));
  const std::string text = text_of(metrics, {.sandboxes = 2, .audit_lost = 7});
  EXPECT_THAT(text, AllOf(HasSubstr("# TYPE pons_egress_decisions_total counter\n"),
                          HasSubstr("_total{verdict=\"block\",code=\"host_not_allowed\"} 3\n"),
                          HasSubstr("_total{verdict=\"swap\",code=\"\"} 1\n"),
                          HasSubstr("_total{verdict=\"inert\",code=\"stub_inert\"} 1\n"),
                          HasSubstr("_total{verdict=\"drop\",code=\"host_not_allowed\"} 1\n"),
                          HasSubstr("_total{verdict=\"scrub\",code=\"\"} 0\n"),
                          HasSubstr("_bytes_total{direction=\"from_sandboxes\"} 60\n"),
                          HasSubstr("_bytes_total{direction=\"to_sandboxes\"} 600\n"),
                          HasSubstr("\npons_egress_sandboxes 2\n"),
                          HasSubstr("pons_egress_audit_events_total{outcome=\"lost\"} 7\n")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("secret")), Not(HasSubstr("SECRET"))));
}

TEST(MetricsTest, WhatPassesUnseenIsCountedApart) {
  Metrics metrics;
  metrics.count(decision(audit::Verdict::kAllow, "", "tls"));
  metrics.count(decision(audit::Verdict::kAllow, "", "http/1.1"));
  metrics.count(decision(audit::Verdict::kBlock, "budget_spent", "tls"));
  EXPECT_THAT(text_of(metrics), AllOf(HasSubstr("spliced_total{protocol=\"tls\"} 1\n"),
                                      HasSubstr("spliced_total{protocol=\"tcp\"} 0\n")));
}

TEST(MetricsTest, LabelsAreBoundedAndCannotBeBrokenOut) {
  Metrics metrics;
  metrics.count(decision(audit::Verdict::kBlock, "x\"} 9\nowned 1"));
  for (char a = 'a'; a <= 'z'; ++a)
    for (char b = 'a'; b <= 'z'; ++b)
      metrics.count(decision(audit::Verdict::kBlock, std::string{a, b}));
  const std::string text = text_of(metrics);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("owned")), HasSubstr("code=\"other\"")));
  EXPECT_LT(text.size(), 32UZ << 10);
}

}  // namespace
}  // namespace pons::egress
