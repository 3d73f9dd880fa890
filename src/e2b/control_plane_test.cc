#include "pons/e2b/control_plane.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "fake_provider.h"
#include "network_options.h"
#include "pons/base/json.h"
#include "time_text.h"

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
  Task<Result<void>> record_ended(std::string, std::string id, std::string) override {
    ended_.push_back(std::move(id));
    co_return {};
  }
  Task<Result<std::vector<OpenRecord>>> list_open_records(std::string after) override {
    if (!after.empty()) co_return std::vector<OpenRecord>();
    co_return open_;
  }
  Task<Result<void>> set_network(std::string, std::string policy) override {
    policy_ = std::move(policy);
    co_return {};
  }
  Task<Result<std::string>> find_network(std::string) override {
    if (policy_.empty()) co_return make_error(ErrorCode::kNotFound, "find network", "none");
    co_return policy_;
  }
  Task<Result<std::string>> ask_secrets(std::string question) override {
    question_ = std::move(question);
    Json secrets = *parse_json(secrets_);
    for (Json& secret : secrets)
      secret.update({{"name", "n"}, {"version", 1}, {"metadata", Json::object()}});
    for (Json& secret : secrets) secret["updated_unix_ms"] = 2;
    co_return dump_json({{"secrets", std::move(secrets)}});
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
  std::string question_;
  std::string secrets_ = R"([{"id":"sec1","created_unix_ms":1}])";
  std::vector<std::string> ended_;
  std::vector<OpenRecord> open_;
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
  EXPECT_EQ(body["alias"], "base");
  EXPECT_EQ(body["domain"], "sbx.test");
  EXPECT_GE(body["envdAccessToken"].get<std::string>().size(), 32U);
  ASSERT_EQ(provider_.created.size(), 1U);
  const auto& request = provider_.created.front();
  EXPECT_EQ(request.template_name, "host");  // nothing was built
  EXPECT_EQ(request.environment.at("X"), "1");
  EXPECT_EQ(request.limits.lifetime_max, std::chrono::seconds(62));
  EXPECT_EQ(request.limits.memory_bytes, 0U) << "the operator's settings, not ours";
  EXPECT_EQ(request.limits.cpu_percent, 0U);
  EXPECT_EQ(request.limits.pids, 0U);
  EXPECT_TRUE(request.limits.pause_at_end);
  EXPECT_EQ(request.network.policy, R"({"mode":"public","project":"mine"})");
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
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/resume").status, 409);
}

TEST_F(ControlPlaneTest, APauseThatFailsLeavesTheTimeAsItWas) {
  const std::string id = make(R"(,"timeout":60)");
  provider_.pause_error = make_error(ErrorCode::kIo, "freeze", "not now");
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/pause").status, 500);
  EXPECT_TRUE(provider_.lifetimes.empty());
}

TEST_F(ControlPlaneTest, WhatSomebodyWakesDuringAPauseHasAnEnd) {
  const std::string id = make(R"(,"timeout":60)");
  provider_.wakes_before_lifetime = true;
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/pause").status, 204);
  EXPECT_GT(provider_.lifetimes.back().count(), 0);
  provider_.wakes_before_lifetime = false;
  ASSERT_EQ(ask("POST", "/sandboxes/" + id + "/pause").status, 204);
  provider_.lifetimes.clear();
  EXPECT_EQ(ask("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":5})").status, 201);
  const std::vector<sandbox::Milliseconds> twice(2, std::chrono::seconds(5));
  EXPECT_EQ(provider_.lifetimes, twice) << "before it runs, and once it does";
}

TEST_F(ControlPlaneTest, ATimeThatEndsWhileSomebodyConnectsIsNoReasonToStaySleeping) {
  const std::string id = make(R"(,"timeout":60,"autoPause":true)");
  provider_.sandboxes[id].ends_unix_ms = 1;
  provider_.pauses_before_lifetime = true;
  EXPECT_EQ(ask("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":5})").status, 201);
  EXPECT_EQ(provider_.sandboxes[id].state, sandbox::State::kRunning);
  EXPECT_EQ(provider_.resumes, 1);
}

TEST_F(ControlPlaneTest, APauseWithoutMemoryIsMarkedUntilItsOwnerEndsIt) {
  const std::string id = make(R"(,"timeout":60,"autoResume":{"enabled":true})");
  const auto marked = [&] { return is_paused_cold(provider_.sandboxes.at(id)); };
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/pause", R"({"memory":false})").status, 204);
  EXPECT_TRUE(marked());
  EXPECT_EQ(ask("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":5})").status, 201);
  EXPECT_FALSE(marked());
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/pause").status, 204);
  EXPECT_FALSE(marked());
  EXPECT_FALSE(provider_.sandboxes.at(id).labels.contains(kColdPauseLabel));
  // One that fails leaves no mark for the next one.
  EXPECT_EQ(ask("POST", "/v2/sandboxes/" + id + "/connect", R"({"timeout":5})").status, 201);
  provider_.pause_error = make_error(ErrorCode::kIo, "freeze", "not now");
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/pause", R"({"memory":false})").status, 500);
  EXPECT_FALSE(provider_.sandboxes.at(id).labels.contains(kColdPauseLabel));
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
  EXPECT_EQ(first.fields.front(), (std::pair<std::string, std::string>("X-Total-Running", "5")));
  ASSERT_EQ(first.fields.size(), 2U);
  std::set<std::string> seen;
  std::string token;
  for (int page = 0; page < 3; ++page) {
    const auto answer = ask("GET", "/v2/sandboxes?limit=2&nextToken=" + token);
    for (const Json& one : json(answer)) seen.insert(one["sandboxID"]);
    token = answer.fields.size() < 2 ? "" : answer.fields.back().second;
  }
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_TRUE(token.empty());
  EXPECT_EQ(json(ask("GET", "/v2/sandboxes?metadata=u%3Da%252520b%26n%3D3")).size(), 1U);
  EXPECT_EQ(json(ask("GET", "/v2/sandboxes?metadata=u%3Dother")).size(), 0U);
  EXPECT_EQ(json(ask("GET", "/v2/sandboxes?state=paused")).size(), 0U);
  EXPECT_EQ(ask("GET", "/v2/sandboxes?limit=0").status, 400);
  EXPECT_EQ(ask("GET", "/v2/sandboxes?state=running,asleep").status, 400);
  EXPECT_EQ(ask("GET", "/v2/sandboxes?order=up").status, 400);
  EXPECT_EQ(ask("GET", "/v2/sandboxes?order=desc&state=running").status, 200);
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
  for (const auto& request : {provider_.created.at(1), provider_.created.at(2)}) {
    EXPECT_EQ(request.environment.at("E2B_SANDBOX_ID"), request.id);
    EXPECT_EQ(request.environment.at("E2B_TEMPLATE_ID"), "base");
    EXPECT_EQ(request.limits.lifetime_max, std::chrono::seconds(15));
    EXPECT_EQ(std::vector{request.keep_checkpoint}, provider_.committed);
  }
  for (const char* count : {"0", "101", "-1", "\"2\""})
    EXPECT_EQ(
        ask("POST", "/sandboxes/" + id + "/fork", fmt::format(R"({{"count":{}}})", count)).status,
        400);
}

TEST_F(ControlPlaneTest, AForkThatCannotBeMadeIsARefusalAndNoListOfErrors) {
  const std::string id = make();
  provider_.fork_error = make_error(ErrorCode::kConflict, "fork", "busy_writers: close it");
  const auto refused = ask("POST", "/sandboxes/" + id + "/fork", R"({"count":5})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(provider_.forks_asked, 1) << "what keeps the first one keeps all";
  provider_.fork_error.reset();
  ASSERT_EQ(ask("POST", "/sandboxes/" + id + "/pause").status, 204);
  EXPECT_EQ(ask("POST", "/sandboxes/" + id + "/fork").status, 409);
  EXPECT_EQ(provider_.forks_asked, 1);
}

TEST_F(ControlPlaneTest, SnapshotsAreNamedAsCallersNameThem) {
  const std::string id = make();
  const auto name_of = [&](const char* said) {
    return json(ask("POST", "/sandboxes/" + id + "/snapshots",
                    fmt::format(R"({{"name":"{}"}})", said)))["snapshotID"];
  };
  EXPECT_EQ(name_of("Snap"), "snap:default");
  EXPECT_EQ(provider_.templates.back().name, "own.mine.snap");
  EXPECT_EQ(name_of("mine/Snap:v2"), "snap:v2");
  EXPECT_EQ(provider_.templates.back().name, "own.mine.snap..v2");
  for (const char* said : {"snap", "SNAP:default", "mine/snap", "snap:v2", "mine/snap:V2"})
    EXPECT_EQ(ask("POST", "/v2/sandboxes", fmt::format(R"({{"templateID":"{}"}})", said)).status,
              201)
        << said;
  for (const char* said : {"theirs/snap", "snap:v3", "OWN.mine.snap"})
    EXPECT_EQ(ask("POST", "/v2/sandboxes", fmt::format(R"({{"templateID":"{}"}})", said)).status,
              404)
        << said;
  EXPECT_EQ(json(ask("GET", "/snapshots?name=snap%3Av2"))[0]["snapshotID"], "snap:v2");
}

TEST_F(ControlPlaneTest, AProjectsOwnSnapshotIsWhatItMeansByTheName) {
  const std::string id = make();
  provider_.templates.push_back({.name = "tools"});
  ASSERT_EQ(ask("POST", "/sandboxes/" + id + "/snapshots", R"({"name":"tools"})").status, 201);
  for (const char* said : {"tools", "tools:default"}) {
    ask("POST", "/v2/sandboxes", fmt::format(R"({{"templateID":"{}"}})", said));
    EXPECT_EQ(provider_.created.back().template_name, "own.mine.tools") << said;
  }
  project_ = "theirs";
  ask("POST", "/v2/sandboxes", R"({"templateID":"tools"})");
  EXPECT_EQ(provider_.created.back().template_name, "tools");
  const std::string other = make();
  for (const char* said : {"host", "base", "Base:default", "theirs/host"}) {
    const auto refused =
        ask("POST", "/sandboxes/" + other + "/snapshots", fmt::format(R"({{"name":"{}"}})", said));
    EXPECT_EQ(refused.status, 409) << said;
    EXPECT_EQ(json(refused)["code"], 409);
  }
  EXPECT_EQ(ask("POST", "/sandboxes/" + other + "/snapshots", R"({"name":"base:v2"})").status, 201);
}

TEST_F(ControlPlaneTest, SnapshotsAreOfTheSandboxThatIsNamedAndNoOther) {
  provider_.templates.push_back({.name = "own.mine.a", .source = "snapshot of iabc"});
  EXPECT_EQ(json(ask("GET", "/snapshots?sandboxID=iabc")).size(), 1U);
  for (const char* other : {"abc", "c", "", "of%20iabc"})
    EXPECT_EQ(json(ask("GET", fmt::format("/snapshots?sandboxID={}", other))).size(), 0U) << other;
}

TEST_F(ControlPlaneTest, WhatIsDeletedBetweenTwoPagesMakesNothingElseVanish) {
  for (int i = 0; i < 5; ++i)
    provider_.templates.push_back(
        {.name = fmt::format("own.mine.s{}", i), .created_unix_ms = i / 2});
  secrets_ = R"([{"id":"s0","created_unix_ms":0},{"id":"s1","created_unix_ms":0},)"
             R"({"id":"s2","created_unix_ms":1},{"id":"s3","created_unix_ms":1},)"
             R"({"id":"s4","created_unix_ms":2}])";
  const auto ids = [&](const http::Response& page, const char* name) {
    std::vector<std::string> listed;
    for (const Json& one : json(page)) listed.push_back(one[name].get<std::string>().substr(0, 2));
    return listed;
  };
  for (const auto& [path, name] :
       {std::pair("/snapshots?limit=2", "snapshotID"), std::pair("/secrets?limit=2", "secretID")}) {
    const auto first = ask("GET", path);
    EXPECT_EQ(ids(first, name), (std::vector<std::string>{"s4", "s3"}));
    ASSERT_EQ(first.fields.size(), 1U);
    provider_.templates.pop_back();  // s4 is gone, and s3, where the next page begins
    provider_.templates.pop_back();
    secrets_ = R"([{"id":"s0","created_unix_ms":0},{"id":"s1","created_unix_ms":0},)"
               R"({"id":"s2","created_unix_ms":1}])";
    const std::string next = fmt::format("{}&nextToken={}", path, first.fields.front().second);
    EXPECT_EQ(ids(ask("GET", next), name), (std::vector<std::string>{"s2", "s1"}));
    secrets_ = R"([{"id":"s0","created_unix_ms":0},{"id":"s1","created_unix_ms":0},)"
               R"({"id":"s2","created_unix_ms":1},{"id":"s3","created_unix_ms":1},)"
               R"({"id":"s4","created_unix_ms":2}])";
    EXPECT_EQ(ask("GET", std::string(path) + "&nextToken=7").status, 400);
  }
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
        R"({"templateID":"base","network":{"rules":{"h":{}}}})",
        R"({"templateID":"base","network":{"rules":{"h":[{"transform":{"headers":{"a":1}}}]}}})",
        R"({"templateID":"base","network":{"httpsPorts":[3000]}})",
        R"({"templateID":"base","iam":{"tokens":{"t":{"audience":"a","tokenType":"JWT-SVID"}}}})",
        R"({"templateID":"base","autoPauseMemory":false,"autoResume":{"enabled":true}})",
        R"({"templateID":"base","network":{"allowOut":"a.b"}})",
        R"({"templateID":"base","volumeMounts":[{"name":"v","path":"/v"}]})"}) {
    const auto refused = ask("POST", "/v2/sandboxes", body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_EQ(json(refused)["code"], 400);
  }
  EXPECT_TRUE(provider_.created.empty());
}

TEST_F(ControlPlaneTest, WhatIsNotOfferedIsRefusedInTheWordsOfTheProtocol) {
  for (const auto& [method, target, status] :
       std::vector<std::tuple<std::string, std::string, int>>{{"POST", "/volumes", 501},
                                                              {"POST", "/v3/templates", 501},
                                                              {"GET", "/teams", 404},
                                                              {"PUT", "/sandboxes/x/y/z", 404}}) {
    const auto refused = ask(method, target);
    EXPECT_EQ(refused.status, status) << target;
    EXPECT_EQ(json(refused)["code"], status);
  }
  EXPECT_EQ(ask("GET", "/templates/aliases/base").status, 200);
  EXPECT_EQ(ask("GET", "/templates/aliases/none").status, 404);
}

TEST_F(ControlPlaneTest, ListsAreOrderedAndBeginWhereTheyAreToldTo) {
  const std::string old = make(), young = make();
  provider_.sandboxes[old].created_unix_ms = 1'000'000;
  provider_.sandboxes[young].created_unix_ms = 2'000'000;
  const auto ids = [&](const std::string& query) {
    std::vector<std::string> listed;
    for (const Json& one : json(ask("GET", "/v2/sandboxes" + query)))
      listed.push_back(one["sandboxID"]);
    return listed;
  };
  EXPECT_EQ(ids(""), (std::vector{young, old}));
  EXPECT_EQ(ids("?order=asc"), (std::vector{old, young}));
  EXPECT_EQ(ids("?startedAfter=1970-01-01T00:33:20.000Z"), (std::vector{young}));
  EXPECT_EQ(ids("?startedAfter=1970-01-01T01:33:20.001%2B01:00"), std::vector<std::string>());
  EXPECT_EQ(ask("GET", "/v2/sandboxes?startedAfter=yesterday").status, 400);
  EXPECT_EQ(ask("POST", "/sandboxes/" + old + "/pause").status, 204);
  EXPECT_EQ(json(ask("GET", "/sandboxes")).size(), 1U) << "the old list is of running ones";
  EXPECT_EQ(ids("?state=paused"), (std::vector{old}));
}

TEST_F(ControlPlaneTest, WhatTheNetworkIsNowIsShown) {
  const std::string id = make(R"(,"network":{"maskRequestHost":"a.b","allowOut":["x.example"]})");
  EXPECT_EQ(ask("PUT", "/sandboxes/" + id + "/network", R"({"denyOut":["8.8.8.8"]})").status, 204);
  const Json info = json(ask("GET", "/sandboxes/" + id));
  EXPECT_EQ(info["network"],
            (Json{{"denyOut", Json::array({"8.8.8.8"})}, {"maskRequestHost", "a.b"}}));
}

TEST_F(ControlPlaneTest, EndsThatNobodyAskedForAreTold) {
  const std::string lives = make(), gone = make();
  open_ = {{lives, "mine"}, {gone, "mine"}};
  provider_.sandboxes.erase(gone);
  linux::TaskGroup group(*loop_);
  group.spawn([](ControlPlane& control) -> Task<> {
    EXPECT_TRUE(co_await control.record_ends());
  }(control_));
  EXPECT_EQ(ended_, std::vector{gone});
}

TEST_F(ControlPlaneTest, SecretsAreAskedForInTheNameOfTheCallersProject) {
  const auto made = ask("POST", "/secrets", R"({"name":"n","value":"hidden","project":"theirs"})");
  EXPECT_EQ(made.status, 201);
  EXPECT_THAT(made.body, Not(HasSubstr("hidden")));
  EXPECT_EQ(json(made)["secretID"], "sec1");
  EXPECT_EQ(*parse_json(question_),
            (Json{{"op", "create"}, {"project", "mine"}, {"name", "n"}, {"value", "hidden"}}));
  EXPECT_EQ(ask("GET", "/secrets/a%2Fb").status, 200);
  EXPECT_EQ(*parse_json(question_), (Json{{"op", "find"}, {"project", "mine"}, {"secret", "a/b"}}));
  EXPECT_EQ(json(ask("GET", "/secrets")).size(), 1U);
  for (const char* body : {"{}", R"({"name":"n"})", R"({"name":1,"value":"v"})",
                           R"({"name":"n","value":"v","metadata":{"a":1}})"})
    EXPECT_EQ(ask("POST", "/secrets", body).status, 400) << body;
}

std::string policy_of(std::string_view text) {
  const Json body = *parse_json(text);
  const auto network = read_network(body, body, "mine");
  if (!network) return network.error().message;
  Json policy = *parse_json(network->policy);
  EXPECT_EQ(policy["project"], "mine");
  policy.erase("project");
  policy.erase("note");  // the caller's own words are another test's
  return dump_json(policy);
}

TEST(NetworkOptionsTest, WordsBecomeAPolicy) {
  EXPECT_EQ(policy_of("{}"), R"({"mode":"public"})");
  EXPECT_EQ(policy_of(R"({"allow_internet_access":false})"), R"({"mode":"none"})");
  EXPECT_EQ(policy_of(R"({"denyOut":["0.0.0.0/0"]})"), R"({"mode":"none"})");
  EXPECT_EQ(policy_of(R"({"denyOut":["0.0.0.0/0"],"allowOut":["a.example","1.1.1.1/32"]})"),
            R"({"mode":"list","allow":[{"host":"a.example"}],"allow_ranges":["1.1.1.1/32"]})");
  EXPECT_EQ(
      policy_of(R"({"denyOut":["8.8.8.0/24"],"allowOut":["8.8.8.8"]})"),
      R"({"mode":"public","allow":[{"host":"8.8.8.8"}],"deny":["8.8.8.0/24"],"prefer":"allow"})");
  EXPECT_EQ(policy_of(R"({"denyOut":["0.0.0.0/0"],"allowOut":["0.0.0.0/0"]})"),
            R"({"mode":"public"})");
  EXPECT_EQ(policy_of(R"({"rules":{"a.example":[{"transform":{"headers":{"X":"1"}}},{}]}})"),
            R"({"mode":"public","fields":[{"host":"a.example","set":{"X":"1"}}]})");
  EXPECT_EQ(policy_of(R"({"rules":{"a.example":[],"b.example":[{}]}})"),
            R"({"mode":"public","fields":[{"host":"a.example","set":{}},)"
            R"({"host":"b.example","set":{}}]})");
  EXPECT_THAT(policy_of(R"({"egressProxy":{"address":"a:1"}})"), HasSubstr("not offered"));
}

TEST(NetworkOptionsTest, ThePolicyKeepsTheCallersWords) {
  const Json body =
      *parse_json(R"({"allow_internet_access":true,"allowOut":["a.example"],"rules":{}})");
  const auto network = read_network(body, body, "mine");
  ASSERT_TRUE(network);
  EXPECT_EQ(words_of(network->policy),
            *parse_json(R"({"allowInternetAccess":true,)"
                        R"("network":{"allowOut":["a.example"],"rules":{}}})"));
  EXPECT_EQ(words_of("nonsense"), Json::object());
}

TEST(TimeTextTest, TimesAreReadAndWritten) {
  EXPECT_EQ(parse_rfc3339("1970-01-01T00:00:01.5Z"), 1500);
  EXPECT_EQ(parse_rfc3339("1970-01-01T01:00:00+01:00"), 0);
  EXPECT_EQ(parse_rfc3339(rfc3339(1'794'833'673'123)), 1'794'833'673'123);
  for (const char* text : {"", "1970-01-01", "1970-13-01T00:00:00Z", "1970-02-30T00:00:00Z",
                           "1970-01-01T24:00:00Z", "1970-01-01T00:00:00", "1970-01-01T00:00:00.Z",
                           "1970-01-01T00:00:00Zx", "1970-01-01T00:00:00+1:00"})
    EXPECT_FALSE(parse_rfc3339(text)) << text;
}

}  // namespace
}  // namespace pons::e2b
