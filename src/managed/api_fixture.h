#pragma once

// For tests: the API as its clients meet it: routes on a socket, a store, sessions.

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <variant>
#include <vector>

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

namespace pons::managed {

class EchoModel final : public session::Model {
 public:
  std::vector<std::string> asked;  // in the words of the Messages protocol

  Task<std::variant<session::Answer, session::NoAnswer>> ask(session::Question question,
                                                             const session::Listener&) override {
    asked.push_back(std::move(question.request));
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
  void replace(const std::vector<SessionToken>&) override {}
  void tell_others() override {}
  Task<> wait_until_heard() override { co_return; }
};

// What egress would say: in the project "default" there is vlt_ours, and vlt_old is archived.
inline Task<Result<void>> find_vault(std::string project, std::string vault) {
  if (project == "default" && vault == "vlt_ours") co_return {};
  if (project == "default" && vault == "vlt_old")
    co_return make_error(ErrorCode::kConflict, "find vault", "it is archived");
  co_return make_error(vault == "vlt_silent" ? ErrorCode::kUnavailable : ErrorCode::kNotFound,
                       "find vault", "nothing is known of it");
}

class ApiTest : public testing::Test {
 protected:
  ApiTest()
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
    api_.use_vaults(find_vault);
    deployments_.use_vaults(find_vault);
    auto routes = api_.routes();
    std::ranges::move(deployments_.routes(), std::back_inserter(routes));
    server_ = std::make_unique<http::Server>(*loop_, http::ServerLimits{},
                                             http::route(std::move(routes)));
    EXPECT_TRUE(
        server_->listen(std::move(*linux::listen_unix(directory_ + "/s", 0600)), "operator"));
    agent_ = ask("POST", "/v1/agents", {{"name", "a"}, {"model", "m"}}).json;
    environment_ = ask("POST", "/v1/environments", {{"name", "e"}}).json;
  }
  ~ApiTest() override {
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

}  // namespace pons::managed
