#include "pons/vault/routes.h"

#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/http/client.h"
#include "pons/linux/loop.h"
#include "pons/linux/unix_socket.h"
#include "vault_fixture.h"

namespace pons::vault {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Answer {
  int status = 0;
  std::string text;
  Json json() const { return parse_json(text).value_or(Json()); }
};

Task<> converse(http::Client& client, http::ClientRequest request, Answer& answer,
                linux::Loop& loop) {
  auto response = co_await client.send(std::move(request));
  if (response) {
    answer.status = response->status();
    answer.text = (co_await response->read_whole_body(1 << 20)).value_or("");
  }
  loop.stop();
}

class RoutesTest : public VaultTest {
 protected:
  RoutesTest() : vault_(open()), loop_(std::move(*linux::Loop::create())) {
    server_ = std::make_unique<http::Server>(
        *loop_, http::ServerLimits{},
        http::route(vault_routes(*vault_, [this](http::Exchange& exchange) {
          if (operator_asks_) return false;
          exchange.respond(http::error_response(403, "denied", "not you"));
          return true;
        })));
    EXPECT_TRUE(
        server_->listen(std::move(*linux::listen_unix(directory_ + "/socket", 0600)), "op"));
  }
  Answer ask(std::string method, std::string target, std::string body = {}) {
    http::Client client(*loop_, http::unix_connector(*loop_, directory_ + "/socket"), "pons");
    Answer answer;
    loop_->spawn(converse(
        client, {.method = std::move(method), .target = std::move(target), .body = std::move(body)},
        answer, *loop_));
    loop_->run();
    EXPECT_THAT(answer.text, Not(HasSubstr(std::string(kGithubValue.substr(4, 12)))));
    EXPECT_THAT(answer.text, Not(HasSubstr(std::string(kOtherValue.substr(4, 12)))));
    return answer;
  }
  static std::string body(std::string_view value, std::string_view rest = R"("preset":"github")") {
    return fmt::format(R"({{"value":"{}",{}}})", value, rest);
  }

  bool operator_asks_ = true;
  std::unique_ptr<Vault> vault_;
  std::unique_ptr<linux::Loop> loop_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(RoutesTest, SetListRotateAndRemoveWithoutEverShowingAValue) {
  const Answer put = ask("PUT", "/vault/GITHUB_TOKEN", body(kGithubValue));
  EXPECT_EQ(put.status, 200) << put.text;
  EXPECT_EQ(put.json().at("name"), "GITHUB_TOKEN");
  EXPECT_EQ(ask("GET", "/vault").json().at("credentials").size(), 1U);
  EXPECT_EQ(ask("GET", "/vault/GITHUB_TOKEN").json().at("bindings").size(), 6U);
  const Answer rotated =
      ask("POST", "/vault/GITHUB_TOKEN/rotate", body(kOtherValue, R"("grace_seconds":60)"));
  EXPECT_EQ(rotated.status, 200) << rotated.text;
  EXPECT_TRUE(rotated.json().contains("previous_until_unix_ms"));
  EXPECT_EQ((*vault_->load("GITHUB_TOKEN"))->value.reveal(), kOtherValue);
  EXPECT_EQ(ask("DELETE", "/vault/GITHUB_TOKEN").status, 200);
  EXPECT_EQ(ask("DELETE", "/vault/GITHUB_TOKEN").status, 404);
  EXPECT_EQ(ask("GET", "/vault/GITHUB_TOKEN").status, 404);
}

TEST_F(RoutesTest, OnlyTheOperatorIsServed) {
  ASSERT_TRUE(vault_->set(github()));
  operator_asks_ = false;
  EXPECT_EQ(ask("GET", "/vault").status, 403);
  EXPECT_EQ(ask("GET", "/vault/GITHUB_TOKEN").status, 403);
  EXPECT_EQ(ask("PUT", "/vault/OTHER", body(kOtherValue)).status, 403);
  EXPECT_EQ(ask("POST", "/vault/GITHUB_TOKEN/rotate", body(kOtherValue)).status, 403);
  EXPECT_EQ(ask("DELETE", "/vault/GITHUB_TOKEN").status, 403);
  EXPECT_EQ(vault_->list().size(), 1U);
}

TEST_F(RoutesTest, WrongRequestsAreRefusedWithTheirReason) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "JSON"},
      {"[]", "value"},
      {R"({"preset":"github"})", "value"},
      {R"({"value":7,"preset":"github"})", "value"},
      {body(kGithubValue, R"("preset":"none")"), "preset"},
      {body(kGithubValue, R"("preset":7)"), "preset"},
      {body(kGithubValue, R"("scrub":true)"), "either"},
      {body(kGithubValue, R"("preset":"github","bindings":["host=a.example.com"])"), "either"},
      {body(kGithubValue, R"("preset":"github","scrub":"no")"), "scrub"},
      {body(kGithubValue, R"("preset":"github","extra":1)"), "extra"},
      {body(kGithubValue, R"("bindings":[])"), "bindings"},
      {body(kGithubValue, R"("bindings":["host=*.github.io"])"), "strangers"},
      {body("short"), "letters and digits"},
  };
  for (const auto& [text, reason] : cases) {
    const Answer answer = ask("PUT", "/vault/GITHUB_TOKEN", text);
    EXPECT_EQ(answer.status, 400) << text;
    EXPECT_THAT(answer.text, HasSubstr(reason)) << text;
  }
  EXPECT_EQ(ask("PUT", "/vault/lower", body(kGithubValue)).status, 400);
  EXPECT_EQ(ask("PUT", "/vault/A%2FB", body(kGithubValue)).status, 400);
  EXPECT_EQ(ask("POST", "/vault/NONE/rotate", body(kOtherValue, R"("grace_seconds":1)")).status,
            404);
  EXPECT_TRUE(vault_->list().empty());
}

TEST_F(RoutesTest, BindingsMayBeTextOrObjects) {
  const Answer put = ask(
      "PUT", "/vault/KEY",
      body(
          kGithubValue,
          R"("bindings":["host=a.example.com,header=X-Key",{"host":"b.example.com"}],"scrub":false)"));
  EXPECT_EQ(put.status, 200) << put.text;
  EXPECT_EQ(put.json().at("bindings").at(0).at("name"), "x-key");
  EXPECT_EQ(put.json().at("scrub"), false);
}

}  // namespace
}  // namespace pons::vault
