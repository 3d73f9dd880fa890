// Sessions that are changed, archived and deleted, as clients of the API see it.

#include "api_fixture.h"

namespace pons::managed {
namespace {

class SessionUpdate : public ApiTest {
 protected:
  SessionUpdate()
      : session_(ask("POST", "/v1/sessions",
                     {{"agent", agent_.at("id")}, {"environment_id", environment_.at("id")}})
                     .json.at("id")),
        path_("/v1/sessions/" + session_) {}

  Json events() { return ask("GET", path_ + "/events?limit=1000").json.at("data"); }
  std::vector<Json> of(const char* type) {
    std::vector<Json> found;
    for (const Json& event : events())
      if (event.at("type") == type) found.push_back(event);
    return found;
  }
  void say(const char* words) {
    const auto sent =
        ask("POST", path_ + "/events",
            {{"events", Json::array({{{"type", "user.message"}, {"content", words}}})}});
    ASSERT_EQ(sent.status, 200) << sent.json.dump();
  }
  void wait_until_idle() {
    while (ask("GET", path_).json.at("status") != "idle") continue;
  }

  // What a stream says until it ends; "cut off" when it does not end as it should.
  Task<> listen(std::string target, std::string& heard, bool& is_open) {
    http::Client client(*loop_, http::unix_connector(*loop_, directory_ + "/s"), "brain");
    auto response = co_await client.send({.method = "GET", .target = std::move(target)});
    is_open = response.has_value();
    while (response) {
      const auto piece = co_await response->read_body();
      if (!piece) heard += "cut off";
      if (!piece || piece->empty()) break;
      heard += *piece;
    }
  }
  Task<std::string> hear_all(std::string target) {
    std::string heard;
    bool is_open = false;
    co_await listen(std::move(target), heard, is_open);
    co_return heard;
  }
  // The same, of what is asked for as soon as the stream is open.
  Task<std::string> hear(std::string method, std::string target) {
    std::string heard;
    bool is_open = false;
    linux::TaskGroup group(*loop_);
    group.spawn(listen(path_ + "/events/stream", heard, is_open));
    while (!is_open) co_await loop_->sleep_for(std::chrono::milliseconds(1));
    answer_ = co_await send(std::move(method), std::move(target), "");
    co_await group.wait_until_empty(kNever);
    co_return heard;
  }

  const std::string session_;
  const std::string path_;
  Answer answer_;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST_F(SessionUpdate, WhatHasChangedIsAnEventAndWhatHasNotIsNone) {
  const auto tools = Json::array({{{"type", "agent_toolset_20260401"}}});
  ASSERT_EQ(ask("POST", path_, {{"title", "t"}, {"metadata", {{"a", "1"}}}}).status, 200);
  ASSERT_EQ(ask("POST", path_, {{"title", "t"}, {"metadata", {{"a", "1"}}}}).status, 200);
  ASSERT_EQ(ask("POST", path_, {{"agent", {{"tools", tools}}}}).status, 200);
  ASSERT_EQ(ask("POST", path_, {{"metadata", {{"a", nullptr}}}, {"title", "u"}}).status, 200);
  const auto updates = of("session.updated");
  ASSERT_EQ(updates.size(), 3U);
  EXPECT_EQ(updates[0].at("title"), "t");
  EXPECT_EQ(updates[0].at("metadata"), (Json{{"a", "1"}}));
  EXPECT_FALSE(updates[0].contains("agent"));
  EXPECT_EQ(updates[1].at("agent"), ask("GET", path_).json.at("agent"));
  EXPECT_FALSE(updates[1].contains("title"));
  EXPECT_EQ(updates[2].at("title"), "u");
  EXPECT_FALSE(updates[2].contains("metadata")) << "nothing of it is left";
}

TEST_F(SessionUpdate, OfTwoAtOnceOneIsInForceAndTheOtherIsNot) {
  const auto change = [&](const char* title) {
    return send("POST", path_, dump_json({{"title", title}}));
  };
  const auto both = [](Task<Answer> first, Task<Answer> second,
                       linux::Loop& loop) -> Task<std::vector<Answer>> {
    std::vector<Answer> answers(2);
    const auto keep = [](Task<Answer> task, Answer& into) -> Task<> {
      into = co_await std::move(task);
    };
    linux::TaskGroup group(loop);
    group.spawn(keep(std::move(first), answers[0]));
    group.spawn(keep(std::move(second), answers[1]));
    co_await group.wait_until_empty(kNever);
    co_return answers;
  };
  const auto answers = run(both(change("one"), change("two"), *loop_));
  const auto updates = of("session.updated");
  const Json shown = ask("GET", path_).json;
  EXPECT_EQ(updates.back().at("title"), shown.at("title"));
  std::size_t taken = 0;
  for (const Answer& answer : answers) {
    EXPECT_TRUE(answer.status == 200 || answer.status == 409) << answer.json.dump();
    taken += answer.status == 200;
  }
  EXPECT_GE(taken, 1U);
  EXPECT_EQ(updates.size(), taken) << "who is refused has changed nothing";
}

// A process that ended between the log and the order.
TEST_F(SessionUpdate, WhatTheLogHasAndTheOrderHasNotIsMadeGood) {
  ASSERT_TRUE(run(sessions_.add(
      session_, session::Updated{.number = 1, .changes = R"({"title":"from the log"})"})));
  EXPECT_TRUE(ask("GET", path_).json.at("title").is_null());
  EXPECT_EQ(ask("POST", path_, {{"title", "too late"}}).status, 409);
  EXPECT_EQ(ask("GET", path_).json.at("title"), "from the log");
  EXPECT_EQ(ask("POST", path_, {{"title", "next"}}).json.at("title"), "next");
}

TEST_F(SessionUpdate, AStreamShowsTheEndOfItsSessionAndEnds) {
  say("hi");
  wait_until_idle();
  const std::string heard = run(hear("POST", path_ + "/archive"));
  EXPECT_EQ(answer_.status, 200);
  EXPECT_EQ(count(heard, "event: session.status_terminated"), 1U) << heard;
  EXPECT_EQ(heard.find("cut off"), std::string::npos);
  EXPECT_EQ(events().back().at("type"), "session.status_terminated");
  EXPECT_EQ(ask("POST", path_ + "/archive").status, 200) << "twice is once";
  EXPECT_EQ(of("session.status_terminated").size(), 1U);
  const std::string late = run(hear_all(path_ + "/events/stream"));
  EXPECT_EQ(count(late, "event:"), 0U) << "one that is opened later ends, too: " << late;
}

TEST_F(SessionUpdate, AStreamOfADeletedSessionSaysSoAndEnds) {
  say("hi");
  wait_until_idle();
  const std::string heard = run(hear("DELETE", path_));
  EXPECT_EQ(answer_.json.at("type"), "session_deleted");
  EXPECT_EQ(count(heard, "event: session.deleted"), 1U) << heard;
  EXPECT_EQ(count(heard, "session.status_terminated"), 0U) << heard;
  EXPECT_EQ(heard.find("cut off"), std::string::npos);
  EXPECT_EQ(ask("GET", path_).status, 404);
}

TEST_F(SessionUpdate, AProjectThatHasAllItsSessionsIsNotToldToTryAgain) {
  ASSERT_TRUE(run(store_->write(
      {{.sql = "UPDATE projects SET sessions_max = 1 WHERE id = 'default'", .values = {}}})));
  http::Client client(*loop_, http::unix_connector(*loop_, directory_ + "/s"), "brain");
  const auto made =
      run(client.send({.method = "POST",
                       .target = "/v1/sessions",
                       .body = dump_json({{"agent", agent_.at("id")},
                                          {"environment_id", environment_.at("id")}})}));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->status(), 429);
  EXPECT_EQ(made->find("x-should-retry"), "false");
  EXPECT_FALSE(made->find("retry-after"));
}

}  // namespace
}  // namespace pons::managed
