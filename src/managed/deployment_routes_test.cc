// Deployments as a client of the API meets them: routes on a socket, a store, sessions.

#include <stdlib.h>

#include <filesystem>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/http/client.h"
#include "pons/http/server.h"
#include "pons/linux/run_task.h"
#include "pons/linux/unix_socket.h"
#include "pons/managed/deployment_api.h"
#include "pons/managed/managed.h"
#include "pons/session/store_log.h"
#include "pons/store/sqlite_store.h"
#include "run_starter.h"

namespace pons::managed {
namespace {

class EchoModel final : public session::Model {
 public:
  Task<std::variant<session::Answer, session::NoAnswer>> ask(session::Question,
                                                             const session::Listener&) override {
    co_return session::Answer{.content = R"([{"type":"text","text":"done"}])",
                              .stop_reason = "end_turn"};
  }
};

class NoHands final : public session::Hands {
 public:
  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder) override {
    co_return none();
  }
  Task<Result<void>> copy(session::CopyOrder) override { co_return none(); }
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder) override { co_return none(); }
  Task<Result<void>> stop(std::string, std::string) override { co_return none(); }
  Task<Result<void>> destroy(std::string) override { co_return {}; }

 private:
  static Error none() { return make_error(ErrorCode::kInvalid, "use hands", "there are none"); }
};

class OpenBoundary final : public session::Boundary {
 public:
  Task<Result<session::Redaction>> redact(Text text) override {
    co_return session::Redaction{.text = std::move(text.text)};
  }
};

struct Answer {
  int status = 0;
  Json json;
};

class NoDoor final : public TokenDoor {
 public:
  void open(const SessionToken&) override {}
  void close(std::string_view) override {}
  Task<> wait_until_heard() override { co_return; }
};

class DeploymentRoutes : public testing::Test {
 protected:
  DeploymentRoutes()
      : loop_(std::move(*linux::Loop::create())),
        directory_(make_directory()),
        store_(open(*loop_, directory_)),
        log_(*store_, clock_, "brain"),
        sessions_(*loop_, clock_, log_, model_, hands_, boundary_),
        api_(*loop_, *store_, clock_, sessions_, door_),
        deployments_(*loop_, *store_, clock_, sessions_, "brain") {
    EXPECT_TRUE(run(store_->write({{.sql = "INSERT INTO projects (id, name, created) "
                                           "VALUES ('default', 'default', 1), ('q', 'q', 1)",
                                    .values = {}}})));
    auto routes = api_.routes();
    std::ranges::move(deployments_.routes(), std::back_inserter(routes));
    server_ = std::make_unique<http::Server>(*loop_, http::ServerLimits{},
                                             http::route(std::move(routes)));
    EXPECT_TRUE(
        server_->listen(std::move(*linux::listen_unix(directory_ + "/s", 0600)), "operator"));
    agent_ = ask("POST", "/v1/agents", {{"name", "a"}, {"model", "m"}}).json;
    environment_ = ask("POST", "/v1/environments", {{"name", "e"}}).json;
  }
  ~DeploymentRoutes() override {
    server_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  static std::string make_directory() {
    char name[] = "/tmp/pons-managed-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    return name;
  }
  static std::unique_ptr<store::SqliteStore> open(linux::Loop& loop, const std::string& directory) {
    return std::move(*store::SqliteStore::open(loop, {.path = directory + "/pons.db"}));
  }

  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }
  Task<Answer> send(std::string method, std::string target, std::string body) {
    http::Client client(*loop_, http::unix_connector(*loop_, directory_ + "/s"), "brain");
    Answer answer;
    auto response = co_await client.send(
        {.method = std::move(method), .target = std::move(target), .body = std::move(body)});
    if (!response) co_return answer;
    answer.status = response->status();
    const auto text = co_await response->read_whole_body(16 << 20);
    if (auto json = parse_json(text.value_or(""))) answer.json = std::move(*json);
    co_return answer;
  }
  Answer ask(std::string method, std::string target, const Json& body = nullptr) {
    return run(send(std::move(method), std::move(target),
                    body.is_null() ? std::string() : dump_json(body)));
  }

  Json wish() {
    return {{"name", "report"},
            {"agent", agent_.at("id")},
            {"environment_id", environment_.at("id")},
            {"initial_events", Json::parse(R"([{"type":"user.message","content":
                [{"type":"text","text":"go"}]}])")},
            {"schedule",
             {{"type", "cron"}, {"expression", "0 9 * * 1-5"}, {"timezone", "Europe/Berlin"}}}};
  }
  std::string make() { return ask("POST", "/v1/deployments", wish()).json.at("id"); }
  // What the error says when the deployment is another in one member.
  Answer refused(const char* member, Json value) {
    Json body = wish();
    body[member] = std::move(value);
    return ask("POST", "/v1/deployments", body);
  }

  SystemClock clock_;
  std::unique_ptr<linux::Loop> loop_;
  std::string directory_;
  std::unique_ptr<store::SqliteStore> store_;
  EchoModel model_;
  NoHands hands_;
  OpenBoundary boundary_;
  session::StoreLog log_;
  session::Sessions sessions_;
  NoDoor door_;
  ManagedApi api_;
  DeploymentApi deployments_;
  std::unique_ptr<http::Server> server_;
  Json agent_;
  Json environment_;
};

TEST_F(DeploymentRoutes, ADeploymentIsShownWithEveryMember) {
  const auto made = ask("POST", "/v1/deployments", wish());
  ASSERT_EQ(made.status, 200) << made.json.dump();
  const Json& shown = made.json;
  EXPECT_EQ(shown.at("type"), "deployment");
  EXPECT_EQ(shown.at("agent"), (Json{{"type", "agent"}, {"id", agent_.at("id")}, {"version", 1}}));
  EXPECT_EQ(shown.at("status"), "active");
  EXPECT_EQ(shown.at("schedule").at("upcoming_runs_at").size(), 5U);
  EXPECT_EQ(shown.at("schedule").at("missed_runs"), "skip");
  for (const char* member : {"description", "paused_reason", "budget", "archived_at"})
    EXPECT_TRUE(shown.at(member).is_null()) << member;
  EXPECT_TRUE(shown.at("schedule").at("last_run_at").is_null());
  const std::string path = "/v1/deployments/" + shown.at("id").get<std::string>();
  EXPECT_EQ(ask("GET", path).json.at("initial_events"), wish().at("initial_events"));
  EXPECT_EQ(ask("GET", path + "?project=q").status, 404);
  EXPECT_EQ(ask("GET", "/v1/deployments/depl_none").status, 404);
}

TEST_F(DeploymentRoutes, RefusalsNameTheMember) {
  const auto says = [](const Answer& answer, const char* text) {
    EXPECT_EQ(answer.status, 400) << answer.json.dump();
    EXPECT_EQ(answer.json.at("error").at("type"), "invalid_request_error");
    const std::string message = answer.json.at("error").at("message");
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  says(refused("colour", "red"), "colour");
  says(refused("name", ""), "name");
  says(refused("initial_events", Json::array()), "initial_events");
  says(refused("initial_events", Json::parse(R"([{"type":"user.interrupt"}])")), "initial_events");
  says(refused("vault_ids", Json::parse(R"(["vlt_1"])")), "vaults are not supported");
  says(refused("schedule", {{"type", "cron"}, {"expression", "@daily"}, {"timezone", "UTC"}}),
       "names of schedules");
  says(refused("schedule", {{"type", "cron"}, {"expression", "0 0 * * *"}, {"timezone", "../x"}}),
       "time zone");
  says(refused("schedule", {{"type", "cron"}, {"expression", "0 0 * * *"}}), "timezone");
  says(refused("agent", {{"type", "agent_with_overrides"}, {"id", agent_.at("id")}}), "agent");
  EXPECT_EQ(refused("agent", "agent_none").status, 404);
  const auto nowhere = refused("environment_id", "env_none");
  EXPECT_EQ(nowhere.json.at("error").at("details").at("error_code"), "environment_not_found");
}

TEST_F(DeploymentRoutes, ChangesPausesAndArchives) {
  const std::string path = "/v1/deployments/" + make();
  auto changed = ask("POST", path, {{"metadata", {{"a", "b"}}}, {"schedule", nullptr}});
  ASSERT_EQ(changed.status, 200) << changed.json.dump();
  EXPECT_TRUE(changed.json.at("schedule").is_null());
  EXPECT_EQ(changed.json.at("metadata"), (Json{{"a", "b"}}));
  EXPECT_EQ(changed.json.at("name"), "report");
  changed = ask("POST", path + "/pause");
  EXPECT_EQ(changed.json.at("status"), "paused");
  EXPECT_EQ(changed.json.at("paused_reason"), (Json{{"type", "manual"}}));
  EXPECT_EQ(ask("GET", "/v1/deployments?status=paused").json.at("data").size(), 1U);
  EXPECT_EQ(ask("GET", "/v1/deployments?status=active").json.at("data").size(), 0U);
  EXPECT_EQ(ask("POST", path + "/unpause").json.at("status"), "active");
  changed = ask("POST", path + "/archive");
  EXPECT_EQ(changed.json.at("status"), "active");
  EXPECT_FALSE(changed.json.at("archived_at").is_null());
  EXPECT_EQ(ask("POST", path + "/run").status, 400);
  EXPECT_EQ(ask("GET", "/v1/deployments").json.at("data").size(), 0U);
  EXPECT_EQ(ask("GET", "/v1/deployments?include_archived=true").json.at("data").size(), 1U);
  EXPECT_EQ(ask("GET", "/v1/deployments?status=active&include_archived=true").status, 400);
}

TEST_F(DeploymentRoutes, ARunMakesASessionOfTheDeployment) {
  const std::string id = make();
  const auto run = ask("POST", "/v1/deployments/" + id + "/run");
  ASSERT_EQ(run.status, 200) << run.json.dump();
  EXPECT_EQ(run.json.at("trigger_context"), (Json{{"type", "manual"}}));
  EXPECT_TRUE(run.json.at("error").is_null());
  const std::string session = run.json.at("session_id");
  EXPECT_TRUE(session.starts_with("sesn_"));
  const auto made = ask("GET", "/v1/sessions/" + session);
  ASSERT_EQ(made.status, 200);
  EXPECT_EQ(made.json.at("deployment_id"), id);
  const auto runs = ask("GET", "/v1/deployment_runs?deployment_id=" + id + "&has_error=false");
  ASSERT_EQ(runs.json.at("data").size(), 1U);
  EXPECT_TRUE(runs.json.at("next_page").is_null());
  EXPECT_EQ(runs.json.at("data")[0], run.json);
  const std::string run_id = run.json.at("id");
  EXPECT_EQ(ask("GET", "/v1/deployment_runs/" + run_id).json, run.json);
  EXPECT_EQ(ask("GET", "/v1/deployment_runs?trigger_type=schedule").json.at("data").size(), 0U);
  EXPECT_EQ(ask("GET", "/v1/deployment_runs?trigger_type=x").status, 400);
}

TEST_F(DeploymentRoutes, WhyThereIsNoSessionIsInTheRun) {
  const std::string id = make();
  ask("POST", "/v1/environments/" + environment_.at("id").get<std::string>() + "/archive");
  auto run = ask("POST", "/v1/deployments/" + id + "/run");
  ASSERT_EQ(run.status, 200);
  EXPECT_TRUE(run.json.at("session_id").is_null());
  EXPECT_EQ(run.json.at("error").at("type"), "environment_archived_error");
  ask("POST", "/v1/agents/" + agent_.at("id").get<std::string>() + "/archive");
  run = ask("POST", "/v1/deployments/" + id + "/run");
  EXPECT_EQ(run.json.at("error").at("type"), "agent_archived_error");
  EXPECT_EQ(ask("GET", "/v1/deployment_runs?has_error=true").json.at("data").size(), 2U);
  EXPECT_EQ(ask("GET", "/v1/deployments/" + id).json.at("status"), "active");
}

// A process that died may have got anywhere.
TEST_F(DeploymentRoutes, ASessionThatIsAskedForAgainIsTheSameWithOneMessage) {
  const auto shown = ask("POST", "/v1/deployments", wish()).json;
  Objects objects{.store = *store_, .clock = clock_};
  SessionStarter starter(objects, sessions_);
  schedule::RunOrder order{.run = {.id = "drun_1", .project = "default", .agent = ""},
                           .spec = {.name = "report",
                                    .agent = shown.at("agent").dump(),
                                    .environment_id = environment_.at("id"),
                                    .initial_events = shown.at("initial_events").dump()},
                           .session = schedule::session_id_for("drun_1")};
  order.run.deployment = shown.at("id");
  for (int i = 0; i < 3; ++i) {
    const auto started = run(starter.start_run(order));
    ASSERT_TRUE(started) << started.error().describe();
    ASSERT_TRUE(std::holds_alternative<schedule::SessionId>(*started));
  }
  int messages = 0;
  const auto events = run(sessions_.read_all(order.session.text()));
  ASSERT_TRUE(events);
  for (const session::StoredEvent& stored : *events)
    if (std::holds_alternative<session::UserMessage>(stored.event)) ++messages;
  EXPECT_EQ(messages, 1);
}

}  // namespace
}  // namespace pons::managed
