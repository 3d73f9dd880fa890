#include "pons/e2b/control_plane.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "fake_provider.h"
#include "network_options.h"
#include "pons/base/json.h"

namespace pons::e2b {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// One request and the answer to it, without a connection.
class PlainExchange final : public http::Exchange {
 public:
  PlainExchange(linux::Loop& loop, std::string method, std::string target, std::string body)
      : loop_(loop),
        method_(std::move(method)),
        target_(std::move(target)),
        body_(std::move(body)) {
    head_.method = method_;
    head_.target = target_;
  }
  const http::RequestHead& request() const override { return head_; }
  const http::Peer& peer() const override { return peer_; }
  linux::Loop& loop() override { return loop_; }
  Task<Result<std::string_view>> read_body() override {
    co_return std::exchange(read_, true) ? std::string_view() : std::string_view(body_);
  }
  void respond(http::Response response) override { answer = std::move(response); }
  Task<Result<void>> start(http::Response) override { co_return {}; }
  Task<Result<void>> write(std::string_view) override { co_return {}; }
  Task<Result<void>> finish(std::string_view) override { co_return {}; }
  void abort() override {}
  Task<bool> wait_for_hang_up(TimePoint) override { co_return false; }
  Task<Result<std::unique_ptr<http::WebSocket>>> accept_websocket(http::WebSocketLimits,
                                                                  std::string) override {
    co_return make_error(ErrorCode::kUnsupported, "open", "not here");
  }
  std::optional<http::Response> answer;

 private:
  linux::Loop& loop_;
  std::string method_, target_, body_;
  http::RequestHead head_;
  http::Peer peer_;
  bool read_ = false;
};

class ControlPlaneTest : public ::testing::Test, public Surroundings {
 protected:
  Result<Caller> authenticate(const http::Exchange&) override {
    if (project_.empty()) return make_error(ErrorCode::kDenied, "authenticate", "no key");
    return Caller{.project = project_};
  }
  Task<Result<void>> record_created(const Caller&, const sandbox::SandboxInfo&) override {
    if (store_is_down_) co_return make_error(ErrorCode::kUnavailable, "keep", "the store is down");
    co_return {};
  }
  Task<Result<void>> record_ended(const Caller&, std::string) override { co_return {}; }
  Task<Result<void>> set_network(std::string, std::string policy) override {
    policy_ = std::move(policy);
    co_return {};
  }

  http::Response ask(std::string method, std::string target, std::string body = "") {
    PlainExchange exchange(*loop_, std::move(method), std::move(target), std::move(body));
    linux::TaskGroup group(*loop_);
    group.spawn(control_.handle(exchange));
    EXPECT_EQ(group.size(), 0U) << "nothing here waits";
    return exchange.answer.value_or(http::Response{.status = 0});
  }
  Json json(const http::Response& response) { return parse_json(response.body).value_or(Json()); }
  std::string make(std::string more = "") {
    const auto made = ask("POST", "/v2/sandboxes", R"({"templateID":"base")" + more + "}");
    EXPECT_EQ(made.status, 201) << made.body;
    return json(made).value("sandboxID", "");
  }

  std::string project_ = "mine";
  bool store_is_down_ = false;
  std::string policy_;
  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  FakeProvider provider_{*loop_};
  Directory directory_{provider_};
  ControlPlane control_{*loop_, provider_, directory_, *this, {.domain = "sbx.test"}};
};

TEST_F(ControlPlaneTest, ANewSandboxHasTokensAndWhatWasAskedFor) {
  const auto made = ask("POST", "/v2/sandboxes",
                        R"({"templateID":"base","metadata":{"a":"b"},"envVars":{"X":"1"},)"
                        R"("timeout":62,"autoPause":true,"unknown":1})");
  const Json body = json(made);
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(body["templateID"], "base");
  EXPECT_EQ(body["domain"], "sbx.test");
  EXPECT_GE(body["envdAccessToken"].get<std::string>().size(), 32U);
  ASSERT_EQ(provider_.created.size(), 1U);
  const auto& request = provider_.created.front();
  EXPECT_EQ(request.template_name, "host");  // nothing was built
  EXPECT_EQ(request.environment.at("X"), "1");
  EXPECT_EQ(request.limits.lifetime_max, std::chrono::seconds(62));
  EXPECT_TRUE(request.limits.pause_at_end);
  EXPECT_EQ(request.network.policy, R"({"mode":"public"})");
  const Json info = json(ask("GET", "/sandboxes/" + request.id));
  EXPECT_EQ(info["metadata"], (Json{{"a", "b"}}));
  EXPECT_EQ(info["lifecycle"]["onTimeout"], "pause");
}

TEST_F(ControlPlaneTest, WithoutAKeyNothingIsAnswered) {
  const std::string id = make();
  project_.clear();
  for (const char* method : {"GET", "DELETE"}) {
    const auto refused = ask(method, "/sandboxes/" + id);
    EXPECT_EQ(refused.status, 401);
    EXPECT_EQ(json(refused)["code"], 401);
  }
  EXPECT_EQ(ask("POST", "/sandboxes", R"({"templateID":"base"})").status, 401);
}

TEST_F(ControlPlaneTest, AnotherProjectsSandboxDoesNotExist) {
  const std::string id = make();
  project_ = "theirs";
  for (const auto& [method, path] :
       std::vector<std::pair<std::string, std::string>>{{"GET", ""},
                                                        {"DELETE", ""},
                                                        {"POST", "/pause"},
                                                        {"POST", "/connect"},
                                                        {"POST", "/fork"},
                                                        {"POST", "/snapshots"},
                                                        {"PUT", "/network"},
                                                        {"GET", "/metrics"}}) {
    const auto refused = ask(method, "/sandboxes/" + id + path);
    EXPECT_EQ(refused.status, 404) << method << path;
    EXPECT_EQ(json(refused)["code"], 404);
  }
  EXPECT_EQ(json(ask("GET", "/v2/sandboxes")), Json::array());
  EXPECT_TRUE(provider_.sandboxes.contains(id));
}

TEST_F(ControlPlaneTest, SandboxesOfOtherCallersOfTheWardenAreNotOurs) {
  provider_.sandboxes["work"].id = "work";
  EXPECT_EQ(ask("GET", "/sandboxes/work").status, 404);
  EXPECT_EQ(ask("DELETE", "/sandboxes/work").status, 404);
  EXPECT_EQ(json(ask("GET", "/sandboxes")), Json::array());
}

TEST_F(ControlPlaneTest, OneThatIsOnNoRecordIsNotLeftRunning) {
  store_is_down_ = true;
  const auto refused = ask("POST", "/v2/sandboxes", R"({"templateID":"base"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(provider_.sandboxes.empty());
}

TEST_F(ControlPlaneTest, ConnectExtendsAndNeverShortensAndWakes) {
  const std::string id = make(R"(,"timeout":60)");
  provider_.sandboxes[id].ends_unix_ms = 33'000'000'000'000;
  EXPECT_EQ(ask("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":5})").status, 200);
  EXPECT_TRUE(provider_.lifetimes.empty());
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/pause").status, 204);
  EXPECT_EQ(provider_.lifetimes.back().count(), 0);
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/pause").status, 409);
  EXPECT_EQ(ask("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":5})").status, 201);
  EXPECT_EQ(provider_.lifetimes.back(), std::chrono::seconds(5));
  EXPECT_EQ(provider_.resumes, 1);
}

TEST_F(ControlPlaneTest, ATimeoutOfZeroIsNowAndNotNever) {
  const std::string id = make();
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/timeout", R"({"timeout":0})").status, 204);
  EXPECT_EQ(provider_.lifetimes.back().count(), 1);
}

TEST_F(ControlPlaneTest, PagesFollowEachOtherAndFiltersHold) {
  for (int i = 0; i < 5; ++i) make(R"(,"metadata":{"n":")" + std::to_string(i) + R"(","u":"a b"})");
  const auto first = ask("GET", "/v2/sandboxes?limit=2");
  ASSERT_EQ(json(first).size(), 2U);
  ASSERT_EQ(first.fields.size(), 1U);
  std::set<std::string> seen;
  std::string token;
  for (int page = 0; page < 3; ++page) {
    const auto answer = ask("GET", "/v2/sandboxes?limit=2&nextToken=" + token);
    for (const Json& one : json(answer)) seen.insert(one["sandboxID"]);
    token = answer.fields.empty() ? "" : answer.fields.front().second;
  }
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_TRUE(token.empty());
  EXPECT_EQ(json(ask("GET", "/v2/sandboxes?metadata=u%3Da%252520b%26n%3D3")).size(), 1U);
  EXPECT_EQ(json(ask("GET", "/v2/sandboxes?metadata=u%3Dother")).size(), 0U);
  EXPECT_EQ(json(ask("GET", "/v2/sandboxes?state=paused")).size(), 0U);
  EXPECT_EQ(ask("GET", "/v2/sandboxes?limit=0").status, 400);
  EXPECT_EQ(ask("GET", "/v2/sandboxes?nextToken=x").status, 400);
}

TEST_F(ControlPlaneTest, ForksHaveTokensOfTheirOwn) {
  const std::string id = make();
  const Json made = json(ask("POST", "/sandboxes/" + id + "/fork", R"({"count":2})"));
  ASSERT_EQ(made.size(), 2U);
  const auto token = [&](const std::string& sandbox) {
    return read_labels(provider_.sandboxes.at(sandbox))->access_token;
  };
  const std::string a = made[0]["sandbox"]["sandboxID"], b = made[1]["sandbox"]["sandboxID"];
  EXPECT_NE(token(a), token(b));
  EXPECT_NE(token(a), token(id));
  for (const char* count : {"0", "101", "-1", "\"2\""})
    EXPECT_EQ(
        ask("POST", "/sandboxes/" + id + "/fork", fmt::format(R"({{"count":{}}})", count)).status,
        400);
}

TEST_F(ControlPlaneTest, SnapshotsBelongToTheirProject) {
  const std::string id = make();
  const Json made = json(ask("POST", "/sandboxes/" + id + "/snapshots", R"({"name":"snap"})"));
  EXPECT_EQ(made["snapshotID"], "snap:default");
  EXPECT_EQ(json(ask("GET", "/snapshots")).size(), 1U);
  EXPECT_EQ(ask("POST", "/v2/sandboxes", R"({"templateID":"snap:default"})").status, 201);
  project_ = "theirs";
  EXPECT_EQ(json(ask("GET", "/snapshots")).size(), 0U);
  EXPECT_EQ(ask("DELETE", "/templates/snap%3Adefault").status, 404);
  for (const char* name : {"snap:default", "own.mine.snap", "own.mine.snap:default"})
    EXPECT_EQ(ask("POST", "/v2/sandboxes", fmt::format(R"({{"templateID":"{}"}})", name)).status,
              404)
        << name;
}

TEST_F(ControlPlaneTest, WhatIsNoRequestIsRefusedWithTheReason) {
  for (const char* body :
       {"", "[]", "{", "{}", R"({"templateID":1})", R"({"templateID":"base","timeout":"5"})",
        R"({"templateID":"base","timeout":-1})", R"({"templateID":"base","envVars":{"a":1}})",
        R"({"templateID":"base","metadata":[]})", R"({"templateID":"base","autoPause":"yes"})",
        R"({"templateID":"base","network":{"rules":{"h":[]}}})",
        R"({"templateID":"base","network":{"allowOut":"a.b"}})",
        R"({"templateID":"base","volumeMounts":[{"name":"v","path":"/v"}]})"}) {
    const auto refused = ask("POST", "/v2/sandboxes", body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_EQ(json(refused)["code"], 400);
  }
  EXPECT_TRUE(provider_.created.empty());
}

std::string policy_of(std::string_view text) {
  const Json body = *parse_json(text);
  const auto network = read_network(body, body);
  return network ? network->policy : network.error().message;
}

TEST(NetworkOptionsTest, WordsBecomeAPolicy) {
  EXPECT_EQ(policy_of("{}"), R"({"mode":"public"})");
  EXPECT_EQ(policy_of(R"({"allow_internet_access":false})"), R"({"mode":"none"})");
  EXPECT_EQ(policy_of(R"({"denyOut":["0.0.0.0/0"]})"), R"({"mode":"none"})");
  EXPECT_EQ(policy_of(R"({"denyOut":["0.0.0.0/0"],"allowOut":["a.example","1.1.1.1/32"]})"),
            R"({"mode":"list","allow":[{"host":"a.example"},{"host":"1.1.1.1"}]})");
  EXPECT_EQ(policy_of(R"({"denyOut":["8.8.8.0/24"]})"),
            R"({"mode":"public","deny":["8.8.8.0/24"]})");
  EXPECT_THAT(policy_of(R"({"allowOut":["10.0.0.0/8"]})"), HasSubstr("is a range"));
  EXPECT_THAT(policy_of(R"({"egressProxy":{"address":"a:1"}})"), HasSubstr("not offered"));
}

}  // namespace
}  // namespace pons::e2b
