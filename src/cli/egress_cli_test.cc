#include <gmock/gmock.h>

#include "cli_fixture.h"

namespace pons::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRequests =
    R"({"requests":[{"id":"acc_1","status":"pending","sandbox":"work","sandbox_key":"07",)"
    R"("host":"a.example","port":443,"methods":["GET"],"reason":"tests\u001b[2J","asked_unix_ms":1},)"
    R"({"id":"acc_2","status":"closed","sandbox":"work","sandbox_key":"07","host":"b.example",)"
    R"("port":80,"reason":"builds","asked_unix_ms":1,"closed_unix_ms":2}]})";

class EgressCliTest : public AnsweredCliTest {
 protected:
  Outcome egress(const std::string& body, std::vector<std::string> words, int status = 200) {
    words.insert(words.begin(), "egress");
    return run_against(status, body, std::move(words), "egress");
  }
};

TEST_F(EgressCliTest, RequestsShowWhoAsksForWhatAndWhy) {
  const Outcome list = egress(kRequests, {"requests"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_EQ(asked_, "GET /access-requests");
  EXPECT_THAT(list.out,
              AllOf(HasSubstr("acc_1"), HasSubstr("work"), HasSubstr("a.example:443"),
                    HasSubstr("tests?[2J"), Not(HasSubstr("\x1b")), Not(HasSubstr("acc_2"))));
  EXPECT_THAT(egress(kRequests, {"requests", "--all"}).out, HasSubstr("b.example:80"));
  EXPECT_THAT(egress(kRequests, {"requests", "--json"}).out,
              AllOf(HasSubstr(R"("id":"acc_1")"), Not(HasSubstr("acc_2"))));
}

TEST_F(EgressCliTest, ARequestIsClosedByItsId) {
  const Outcome closed =
      egress(R"({"id":"acc_1","status":"closed"})", {"requests", "close", "acc_1"});
  EXPECT_EQ(closed.exit_code, 0) << closed.err;
  EXPECT_EQ(asked_, "POST /access-requests/acc_1/close");
  EXPECT_THAT(closed.out, HasSubstr("the policy is as it was"));
  asked_.clear();
  EXPECT_EQ(egress("{}", {"requests", "close", "../vault/X"}).exit_code, 1);
  EXPECT_EQ(egress("{}", {"requests", "close"}).exit_code, 2);
  EXPECT_EQ(egress("{}", {"requests", "approve", "acc_1"}).exit_code, 2);
  EXPECT_EQ(egress("{}", {"requests", "allow", "../vault/X"}).exit_code, 1);
  EXPECT_EQ(asked_, "");
}

TEST_F(EgressCliTest, TheOperatorMayAnswerToo) {
  const Outcome allowed = egress(R"({"status":"allowed"})", {"requests", "allow", "acc_1"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.err;
  EXPECT_EQ(asked_, R"(POST /access-requests/acc_1/decision {"allow":true,"message":""})");
  EXPECT_THAT(allowed.out, HasSubstr("acc_1 is allowed"));
  const Outcome late = egress(R"({"status":"denied","message":"no"})",
                              {"requests", "allow", "acc_1", "--message", "yes"});
  EXPECT_EQ(late.exit_code, 1) << "somebody was there before";
  EXPECT_THAT(late.out, HasSubstr("acc_1 is denied: no"));
}

TEST_F(EgressCliTest, MetricsArePrintedAsTheyAre) {
  const std::string text = "# TYPE a counter\na{verdict=\"block\"} 1\n";
  EXPECT_EQ(egress(text, {"metrics"}).out, text);
  EXPECT_EQ(asked_, "GET /metrics");
  EXPECT_THAT(egress("a \x1b[2J\n", {"metrics"}).out, Not(HasSubstr("\x1b")));
  const Outcome refused = egress(R"({"error":{"message":"not now"}})", {"metrics"}, 503);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("not now"));
}

TEST_F(EgressCliTest, AHostileAnswerIsNotObeyed) {
  for (const char* body : {"[]", "{}", "not json", R"({"requests":7})", R"({"requests":[{}]})"})
    EXPECT_EQ(egress(body, {"requests"}).exit_code, 1) << body;
}

}  // namespace
}  // namespace pons::cli
