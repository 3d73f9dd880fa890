#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "brain_fixture.h"
#include "pons/base/json.h"
#include "pons/files/file_store.h"
#include "pons/managed/deployment_api.h"
#include "pons/managed/file_routes.h"
#include "pons/managed/managed.h"
#include "pons/managed/memory_routes.h"
#include "pons/managed/reference.h"
#include "pons/session/store_log.h"
#include "session_fixture.h"
#include "token_door.h"

namespace pons::brain {
namespace {

class SessionRoutesTest : public BrainTest {
 protected:
  SessionRoutesTest()
      : log_(*store_, clock_, "brain"),
        sessions_(*loop_, clock_, log_, model_, hands_, boundary_),
        minds_{.sessions = sessions_,
               .boundary = boundary_,
               .agents = {{"default", {.name = "default", .model = "m"}}}} {
    server_.reset();
    for (const char* role : {"operator", "front", "egress"})
      std::filesystem::remove(socket_of(role));
    server_ = std::make_unique<http::Server>(*loop_, http::ServerLimits{.body_bytes = 8 << 20},
                                             http::route(session_routes(minds_)));
    for (const char* role : {"operator", "front", "egress"})
      EXPECT_TRUE(server_->listen(std::move(*linux::listen_unix(socket_of(role), 0600)), role));
    const auto project = run(memory_->projects.create("other"));
    EXPECT_TRUE(project);
  }
  ~SessionRoutesTest() override { server_.reset(); }

  Task<Answer> send_as(std::string project, std::string method, std::string target,
                       std::string body) {
    http::Client client(*loop_, http::unix_connector(*loop_, socket_of("front")), "brain");
    Answer answer;
    co_await converse(client,
                      {.method = std::move(method),
                       .target = std::move(target),
                       .fields = {{"x-pons-project", std::move(project)}},
                       .body = std::move(body)},
                      answer);
    co_return answer;
  }
  Answer as(std::string project, std::string method, std::string target, std::string body = {}) {
    return run(send_as(std::move(project), std::move(method), std::move(target), std::move(body)));
  }
  Json json(const Answer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.text;
    return parse_json(answer.text).value_or(Json::object());
  }
  Task<bool> sleep() {
    co_await loop_->sleep_for(std::chrono::milliseconds(5));
    co_return true;
  }
  Json wait_for(const std::string& id, const std::string& status) {
    const TimePoint deadline = loop_->now() + std::chrono::minutes(2);
    while (loop_->now() < deadline) {
      const Json shown = json(ask("operator", "GET", "/sessions/" + id));
      if (shown.at("status") == status) return shown;
      (void)run(sleep());
    }
    ADD_FAILURE() << "never " << status;
    return {};
  }
  std::string begin(const std::string& message) {
    const Json made = json(ask("operator", "POST", "/sessions",
                               dump_json(Json{{"message", message}, {"title", "t"}})));
    return made.value("id", "");
  }

  EchoModel model_;
  NoHands hands_;
  PasswordBoundary boundary_;
  session::StoreLog log_;
  session::Sessions sessions_;
  Minds minds_;
};

TEST_F(SessionRoutesTest, AMessageIsAnsweredAndSecretsStay) {
  const std::string id = begin("hi");
  const Json shown = wait_for(id, "idle");
  EXPECT_EQ(shown.at("ended"), "end_turn");
  EXPECT_EQ(shown.at("usage").at("output_tokens"), 3);
  const Answer events = ask("operator", "GET", "/sessions/" + id + "/events");
  const Json list = json(events);
  EXPECT_EQ(list.at("events").size(), shown.at("head").get<std::size_t>());
  EXPECT_EQ(list.at("more"), false);
  EXPECT_EQ(events.text.find("hunter2"), std::string::npos) << events.text;
  EXPECT_NE(events.text.find("xxxxxxx"), std::string::npos);
}

TEST_F(SessionRoutesTest, WhatIsSentAgainIsThereOnceAndWhatIsNewIsAdded) {
  const auto make = [&](const char* body) { return ask("operator", "POST", "/sessions", body); };
  const std::string id = json(make(R"({"message":"hi","dedupe":"a"})")).at("id");
  wait_for(id, "idle");
  EXPECT_EQ(json(make(R"({"message":"hi","dedupe":"a"})")).at("id"), id);
  EXPECT_EQ(wait_for(id, "idle").at("usage").at("output_tokens"), 3) << "it was answered once";
  json(make(R"({"id":"mine","message":"hi","dedupe":"a"})"));
  const auto head = wait_for("mine", "idle").at("head").get<int>();
  EXPECT_GT(json(make(R"({"id":"mine","message":"more","dedupe":"b"})")).at("head"), head);
  wait_for("mine", "idle");
  EXPECT_EQ(make(R"({"id":"mine","message":"more"})").status, 409);
  EXPECT_EQ(make(R"({"id":"mine"})").status, 200);
  EXPECT_EQ(ask("operator", "POST", "/sessions/mine/archive").status, 200);
  EXPECT_EQ(make(R"({"id":"mine","message":"late","dedupe":"c"})").status, 409);
}

TEST_F(SessionRoutesTest, EventsArePaged) {
  const std::string id = begin("hi");
  const auto head = wait_for(id, "idle").at("head").get<int>();
  int after = 0;
  for (bool more = true; more && after < 100;) {
    const Json page = json(ask(
        "operator", "GET", "/sessions/" + id + "/events?limit=2&after=" + std::to_string(after)));
    for (const Json& event : page.at("events")) EXPECT_EQ(event.at("seq"), ++after);
    more = page.at("more").get<bool>();
  }
  EXPECT_EQ(after, head);
  EXPECT_EQ(ask("operator", "GET", "/sessions/" + id + "/events?limit=x").status, 400);
  EXPECT_EQ(ask("operator", "GET", "/sessions/" + id + "/events?after=-1").status, 400);
}

TEST_F(SessionRoutesTest, AnotherProjectsSessionIsNone) {
  const std::string id = begin("hi");
  wait_for(id, "idle");
  for (const auto& [method, path] :
       std::vector<std::pair<std::string, std::string>>{{"GET", ""},
                                                        {"GET", "/events"},
                                                        {"GET", "/stream"},
                                                        {"GET", "/outputs/abc"},
                                                        {"POST", "/events"},
                                                        {"POST", "/fork"},
                                                        {"POST", "/archive"}})
    EXPECT_EQ(as("other", method, "/sessions/" + id + path,
                 method == "POST" ? R"({"events":[{"type":"user.interrupt"}]})" : "")
                  .status,
              404)
        << method << path;
  EXPECT_EQ(json(as("other", "GET", "/sessions")).at("sessions").size(), 0U);
  EXPECT_EQ(json(as("default", "GET", "/sessions")).at("sessions").size(), 1U);
}

TEST_F(SessionRoutesTest, OnlyCallersAndTheOperatorAreHeard) {
  EXPECT_EQ(ask("egress", "GET", "/sessions").status, 403);
  EXPECT_EQ(ask("egress", "POST", "/sessions", R"({"message":"hi"})").status, 403);
  EXPECT_EQ(ask("front", "GET", "/sessions").status, 403) << "the front says whose";
  const std::string id = begin("hi");
  EXPECT_EQ(as("default", "POST", "/sessions/" + id + "/replay").status, 403)
      << "shows what is stored";
}

TEST_F(SessionRoutesTest, WhatCannotBeIsRefused) {
  EXPECT_EQ(ask("operator", "POST", "/sessions", R"({"agent":"none"})").status, 404);
  EXPECT_EQ(ask("operator", "POST", "/sessions", R"({"message":""})").status, 400);
  EXPECT_EQ(ask("operator", "POST", "/sessions?project=none", R"({"message":"hi"})").status, 409);
  EXPECT_EQ(ask("operator", "GET", "/sessions/none").status, 404);
  const std::string large = R"({"message":")" + std::string(5 << 20, 'x') + "\"}";
  EXPECT_EQ(ask("operator", "POST", "/sessions", large).status, 400);
  const std::string id = begin("hi");
  EXPECT_EQ(ask("operator", "POST", "/sessions/" + id + "/events",
                R"({"events":[{"type":"tool.ended","call":1}]})")
                .status,
            400);
  EXPECT_EQ(ask("operator", "POST", "/sessions/" + id + "/fork", R"({"at":999})").status, 400);
}

TEST_F(SessionRoutesTest, APersonIsAskedAndAnswers) {
  const std::string id = begin("wait for me");
  const auto head = wait_for(id, "waits_for_person").at("head").get<int>();
  EXPECT_EQ(ask("operator", "POST", "/sessions/" + id + "/archive").status, 409);
  EXPECT_EQ(ask("operator", "POST", "/sessions/" + id + "/events",
                R"({"events":[{"type":"user.answer","call":1,"text":"no"}]})")
                .status,
            400);
  const Json added = json(ask(
      "operator", "POST", "/sessions/" + id + "/events",
      dump_json({{"events", Json::array({{{"type", "user.answer"}, {"call", head}, {"text", "a"}},
                                         {{"type", "user.interrupt"}}})}})));
  EXPECT_EQ(added.at("seqs").size(), 2U);
  wait_for(id, "idle");
  EXPECT_EQ(ask("operator", "POST", "/sessions/" + id + "/archive").status, 200);
  EXPECT_EQ(ask("operator", "POST", "/sessions/" + id + "/archive").status, 200) << "twice is once";
  EXPECT_EQ(ask("operator", "POST", "/sessions/" + id + "/events",
                R"({"events":[{"type":"user.message","text":"hi"}]})")
                .status,
            400)
      << "it is archived";
  const Json copy = json(ask("operator", "POST", "/sessions/" + id + "/fork"));
  EXPECT_NE(copy.at("id"), id);
}

TEST_F(SessionRoutesTest, ALogOfTodayReplays) {
  const std::string id = begin("hi");
  wait_for(id, "idle");
  const Json replayed = json(ask("operator", "POST", "/sessions/" + id + "/replay"));
  EXPECT_GT(replayed.at("events"), 4);
  EXPECT_EQ(replayed.at("divergences").size(), 0U);
}

TEST_F(SessionRoutesTest, EveryRouteOfTheManagedApiIsInItsReferenceAndNoOther) {
  KeyFeed feed(*loop_, {});
  KeyFeedDoor door(*loop_, feed);
  managed::ManagedApi api(*loop_, *store_, clock_, sessions_, door);
  std::set<std::string> served;
  memory::MemoryStores memories(*store_, clock_, nullptr);
  auto routes = api.routes();
  std::ranges::move(managed::memory_routes(memories), std::back_inserter(routes));
  files::FileStore files(*store_, clock_);
  std::ranges::move(managed::file_routes(files), std::back_inserter(routes));
  managed::DeploymentApi deployments(*loop_, *store_, clock_, sessions_, "brain");
  std::ranges::move(deployments.routes(), std::back_inserter(routes));
  for (const http::Route& route : routes)
    served.insert(fmt::format("{} {}", route.method, route.pattern));
  std::set<std::string> described;
  // Vaults are egress': nothing of a credential reaches the brain.
  for (const managed::RouteText& route : managed::route_texts())
    if (!std::string_view(route.pattern).starts_with("/v1/vaults"))
      described.insert(fmt::format("{} {}", route.method, route.pattern));
  EXPECT_EQ(described, served);
}

}  // namespace
}  // namespace pons::brain
