#include "access_watch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "access_desk.h"
#include "brain_fixture.h"
#include "pons/base/json.h"
#include "pons/sandbox/refusing_provider.h"
#include "pons/session/store_log.h"
#include "session_fixture.h"

namespace pons::brain {
namespace {

using session::AccessOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LabelledSandboxes final : public sandbox::RefusingProvider {
 public:
  Task<Result<sandbox::SandboxInfo>> inspect(std::string) override {
    if (is_down) co_return make_error(ErrorCode::kUnavailable, "inspect", "away");
    if (session.empty()) co_return make_error(ErrorCode::kNotFound, "inspect", "gone");
    sandbox::SandboxInfo info{};
    info.labels = {{"pons.session", session}, {"pons.project", project}};
    co_return info;
  }
  std::string session;
  std::string project = "default";
  bool is_down = false;
};

class AccessWatchTest : public BrainTest {
 protected:
  AccessWatchTest()
      : egress_server_(*loop_, {}, [this](http::Exchange& exchange) { return serve(exchange); }),
        egress_(*loop_, http::unix_connector(*loop_, directory_ + "/asked"), "egress"),
        desk_(egress_),
        log_(*store_, clock_, "brain"),
        sessions_(*loop_, clock_, log_, model_, hands_, boundary_, {.desk = &desk_}),
        watch_(*loop_, egress_, sandboxes_, sessions_, boundary_, "") {
    EXPECT_TRUE(egress_server_.listen(std::move(*linux::listen_unix(directory_ + "/asked", 0600)),
                                      "brain"));
  }

  Task<> serve(http::Exchange& exchange) {
    const auto body = co_await exchange.read_whole_body(1 << 20);
    const std::string target(exchange.request().target);
    if (target != "/access-news") said_.push_back(target + " " + *body);
    exchange.respond(
        {.status = status_,
         .body = target == "/access-news" ? dump_json({{"requests", news_}}) : answer_});
  }
  std::string make_session(std::string parent = {}) {
    return run(sessions_.create(
                   {.project = "default", .agent = {.model = "m"}, .parent = std::move(parent)}))
        ->id;
  }
  void wish(std::string status = "pending", std::string session = {}) {
    news_ = Json::array({{{"id", "acc_1"},
                          {"status", std::move(status)},
                          {"sandbox", "sx-1"},
                          {"host", "a.example"},
                          {"port", 443},
                          {"reason", "my password is hunter2"},
                          {"message", "not on Fridays"},
                          {"session", std::move(session)}}});
  }
  template <class T>
  std::vector<T> all(const std::string& session) {
    std::vector<T> found;
    const auto log = run(sessions_.read_all(session));
    for (const auto& stored : *log)
      if (const auto* event = std::get_if<T>(&stored.event)) found.push_back(*event);
    return found;
  }
  bool pass_on() {
    const auto passed = run(watch_.pass_on());
    return passed && *passed;
  }

  http::Server egress_server_;
  http::Client egress_;
  EgressDesk desk_;
  Json news_ = Json::array();
  std::string answer_ = "{}";
  int status_ = 200;
  std::vector<std::string> said_;
  LabelledSandboxes sandboxes_;
  EchoModel model_;
  NoHands hands_;
  PasswordBoundary boundary_;
  session::StoreLog log_;
  session::Sessions sessions_;
  AccessWatch watch_;
};

TEST_F(AccessWatchTest, AWishReachesItsSessionOnceAndWithoutSecrets) {
  const std::string session = sandboxes_.session = make_session();
  wish();
  ASSERT_TRUE(pass_on());
  ASSERT_TRUE(pass_on()) << "egress has not heard that it was told";
  const auto asked = all<session::AccessAsked>(session);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].host, "a.example");
  EXPECT_THAT(asked[0].wish, HasSubstr("my password is xxxxxxx"));
  EXPECT_THAT(said_.at(0), HasSubstr("/access-requests/acc_1/told"));
  EXPECT_THAT(said_.at(0), HasSubstr(session));
}

TEST_F(AccessWatchTest, AnAgentsWishIsForThePeopleOfTheSessionThatItWorksFor) {
  const std::string session = make_session();
  sandboxes_.session = make_session(session);
  wish();
  ASSERT_TRUE(pass_on());
  EXPECT_EQ(all<session::AccessAsked>(session).size(), 1U);
  EXPECT_THAT(all<session::AccessAsked>(sandboxes_.session), IsEmpty());
}

TEST_F(AccessWatchTest, WhereNobodyCanBeAskedTheOperatorRemains) {
  wish();
  ASSERT_TRUE(pass_on());
  EXPECT_THAT(said_, ElementsAre(HasSubstr(R"("session":"")")));
  sandboxes_.session = make_session();
  sandboxes_.project = "other";
  ASSERT_TRUE(pass_on());
  EXPECT_THAT(all<session::AccessAsked>(sandboxes_.session), IsEmpty())
      << "labels of another project mean nothing";
}

TEST_F(AccessWatchTest, WhatCannotBeFoundOutNowIsTriedAgain) {
  sandboxes_.is_down = true;
  wish();
  EXPECT_FALSE(pass_on());
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(AccessWatchTest, ASessionThatIsAskedForTooMuchTakesNoMore) {
  const std::string session = sandboxes_.session = make_session();
  for (std::size_t i = 0; i < session::kAccessWaitsMax; ++i)
    ASSERT_TRUE(run(sessions_.add(
        session, session::AccessAsked{.request = fmt::format("acc_{}", i + 10), .host = "h"})));
  wish();
  ASSERT_TRUE(pass_on());
  EXPECT_THAT(said_.at(0), HasSubstr("/access-requests/acc_1/withdraw"));
}

TEST_F(AccessWatchTest, WhatIsOverIsOverInTheSession) {
  const std::string session = sandboxes_.session = make_session();
  wish();
  ASSERT_TRUE(pass_on());
  wish("closed", session);
  ASSERT_TRUE(pass_on());
  ASSERT_TRUE(pass_on());
  const auto ended = all<session::AccessEnded>(session);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].outcome, AccessOutcome::kWithdrawn);
  wish("closed", "ses_that_is_not_there");
  EXPECT_TRUE(pass_on()) << "nobody is left to hear of it";
}

TEST_F(AccessWatchTest, AnAnswerOfAnotherShapeIsAnError) {
  for (Json strange : {Json(7), Json::array({7}), Json::array({{{"id", 7}}})}) {
    news_ = std::move(strange);
    EXPECT_FALSE(pass_on());
  }
}

TEST_F(AccessWatchTest, TheDeskTellsEgressAndHearsWhatCameOfIt) {
  const auto decide = [&] {
    return run(desk_.decide({.request = "acc_1", .allowed = false, .message = "no"}));
  };
  answer_ = R"({"status":"denied","message":"no"})";
  EXPECT_EQ(decide()->outcome, AccessOutcome::kDenied);
  EXPECT_THAT(said_.at(0), HasSubstr("/access-requests/acc_1/decision"));
  EXPECT_THAT(said_.at(0), HasSubstr(R"("allow":false)"));
  answer_ = R"({"status":"allowed"})";
  EXPECT_EQ(decide()->outcome, AccessOutcome::kAllowed);
  answer_ = R"({"status":"failed","message":"a rule denies this host"})";
  EXPECT_EQ(decide()->outcome, AccessOutcome::kFailed);
  status_ = 404;
  EXPECT_EQ(decide()->outcome, AccessOutcome::kWithdrawn);
  status_ = 503;
  EXPECT_FALSE(decide()) << "it is asked again";
  EXPECT_FALSE(run(desk_.withdraw("acc_1")));
  status_ = 200;
  EXPECT_TRUE(run(desk_.withdraw("acc_1")));
}

}  // namespace
}  // namespace pons::brain
