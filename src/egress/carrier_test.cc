#include "carrier.h"

#include <fmt/format.h>

#include "pons/http/server.h"
#include "pons/linux/run_task.h"
#include "relay_fixture.h"

namespace pons::egress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kEnvironment = R"({"mode":"list","credentials":["TOKEN"],
    "allow":[{"host":"api.test.example"}]})";

struct Answer {
  int status = 0;
  bool carried = false;
  std::string text;
};

class CarrierTest : public RelayFixture {
 protected:
  CarrierTest()
      : keeper_(-1, std::chrono::milliseconds(1)),
        attachments_(*boundary_, keeper_, PackageHosts{},
                     {{"web", std::string(kEnvironment)},
                      {"bare", R"({"mode":"list","allow":[{"host":"api.test.example"}]})"}}),
        carrier_(*boundary_, attachments_) {}

  http::ClientRequest order(std::string url = "https://api.test.example/mcp") {
    return {.method = "POST",
            .target = "/carry",
            .fields = {{"x-pons-environment", "web"},
                       {"x-pons-url", std::move(url)},
                       {"x-pons-method", "POST"},
                       {"x-pons-credential", "TOKEN"},
                       {"x-pons-for", "ses_1"},
                       {"content-type", "application/json"},
                       {"cookie", "mine"}},
            .body = "{}"};
  }
  static http::ClientRequest with(http::ClientRequest request, std::string_view field,
                                  std::string value) {
    for (auto& [name, old] : request.fields)
      if (name == field) old = std::move(value);
    return request;
  }

  static Task<Answer> fetch(http::Client& client, http::ClientRequest request) {
    Answer answer;
    auto response = co_await client.send(std::move(request));
    if (!response) co_return answer;
    answer.status = response->status();
    answer.carried = response->find("x-pons-carried") == "yes";
    answer.text = (co_await response->read_whole_body(1 << 20)).value_or("<cut off>");
    co_return answer;
  }
  Answer carry(http::ClientRequest request) {
    auto [to_host, host_end] = make_line();
    auto [to_carrier, carrier_end] = make_line();
    http::Server host(*loop_, {}, [this](http::Exchange& exchange) { return serve(exchange); });
    http::Server carrier(*loop_, {}, [&, ready = &to_host](http::Exchange& exchange) {
      return carrier_.handle(exchange, std::move(*ready));
    });
    linux::TaskGroup tasks(*loop_);
    tasks.spawn(host.serve_here(std::move(host_end), {.role = "host"}));
    tasks.spawn(carrier.serve_here(std::move(carrier_end), {.role = "brain"}));
    http::Client client(
        *loop_,
        [line = std::make_shared<std::unique_ptr<http::Transport>>(std::move(to_carrier))](
            TimePoint) -> Task<Result<std::unique_ptr<http::Transport>>> {
          return [](std::unique_ptr<http::Transport> made)
                     -> Task<Result<std::unique_ptr<http::Transport>>> {
            co_return std::move(made);
          }(std::move(*line));
        },
        "egress");
    return linux::run_to_end(*loop_, fetch(client, std::move(request)));
  }
  // Says what it was told, the secret included.
  Task<> serve(http::Exchange& exchange) {
    const http::RequestHead& head = exchange.request();
    const auto body = co_await exchange.read_whole_body(1 << 20);
    seen_ = fmt::format("{} {} {} {} {}", head.method, head.target,
                        head.find("authorization").value_or("-"), head.find("cookie").value_or("-"),
                        body.value_or(""));
    if (!meanwhile_) co_return exchange.respond({.body = seen_});
    EXPECT_TRUE(co_await exchange.start({}));
    EXPECT_TRUE(co_await exchange.write("what came before\n"));
    co_await exchange.loop().sleep_for(std::chrono::milliseconds(20));
    meanwhile_();
    for (int i = 0; i < 3; ++i) co_await exchange.loop().next_round();
    (void)co_await exchange.write("what comes afterwards");
    (void)co_await exchange.finish("");
  }

  roles::Keeper keeper_;
  Attachments attachments_;
  Carrier carrier_;
  std::string seen_;
  std::function<void()> meanwhile_;  // between two halves of the host's answer
};

TEST_F(CarrierTest, TheHostGetsTheSecretAndTheBrainNeverSeesIt) {
  const Answer answer = carry(order());
  EXPECT_EQ(answer.status, 200) << answer.text;
  EXPECT_TRUE(answer.carried);
  EXPECT_EQ(seen_, fmt::format("POST /mcp Bearer {} - {{}}", kSecret));
  EXPECT_THAT(answer.text, Not(HasSubstr(kSecret)));
  EXPECT_THAT(logged(), HasSubstr("for:ses_1"));
}

TEST_F(CarrierTest, AVaultOfTheProjectGivesItsTokenToItsServer) {
  const std::string id = project_vaults_->create("p", "{}")->id;
  ASSERT_TRUE(project_vaults_->create_credential(
      {.project = "p", .vault = id},
      R"({"auth":{"type":"static_bearer","mcp_server_url":"https://api.test.example/mcp"}})",
      {.value = Secret(std::string(kOtherSecret))}));
  const auto ask = [&](std::string project, std::string url = "https://api.test.example/mcp") {
    seen_.clear();
    http::ClientRequest request = order(std::move(url));
    std::erase_if(request.fields, [](const auto& f) { return f.first == "x-pons-credential"; });
    request = with(std::move(request), "x-pons-environment", "bare");
    request.fields.emplace_back("x-pons-project", std::move(project));
    request.fields.emplace_back("x-pons-vaults", id);
    return carry(std::move(request));
  };
  const Answer answer = ask("p");
  EXPECT_EQ(answer.status, 200) << answer.text;
  EXPECT_EQ(seen_, fmt::format("POST /mcp Bearer {} - {{}}", kOtherSecret));
  EXPECT_THAT(answer.text, Not(HasSubstr(kOtherSecret)));
  EXPECT_EQ(ask("p", "https://api.test.example/other").status, 200);
  EXPECT_THAT(seen_, Not(HasSubstr(kOtherSecret))) << "another server of the same host";
  EXPECT_EQ(ask("q").status, 403);
  EXPECT_TRUE(seen_.empty());
  ASSERT_TRUE(project_vaults_->archive({.project = "p", .vault = id}));
  EXPECT_EQ(ask("p").status, 403);
}

TEST_F(CarrierTest, AVaultThatIsGoneTakesNoTokenOfAnotherAway) {
  const std::string gone = project_vaults_->create("p", "{}")->id;
  const std::string here = project_vaults_->create("p", "{}")->id;
  ASSERT_TRUE(project_vaults_->create_credential(
      {.project = "p", .vault = here},
      R"({"auth":{"type":"static_bearer","mcp_server_url":"https://api.test.example/mcp"}})",
      {.value = Secret(std::string(kOtherSecret))}));
  ASSERT_TRUE(project_vaults_->archive({.project = "p", .vault = gone}));
  const auto ask = [&](std::string url) {
    http::ClientRequest request = order(std::move(url));
    std::erase_if(request.fields, [](const auto& f) { return f.first == "x-pons-credential"; });
    request = with(std::move(request), "x-pons-environment", "bare");
    request.fields.emplace_back("x-pons-project", "p");
    request.fields.emplace_back("x-pons-vaults", gone + "," + here);
    return carry(std::move(request));
  };
  EXPECT_EQ(ask("https://api.test.example/mcp").status, 200);
  EXPECT_EQ(seen_, fmt::format("POST /mcp Bearer {} - {{}}", kOtherSecret));
  EXPECT_EQ(ask("https://api.test.example/other").status, 403) << "it may have been in that one";
}

TEST_F(CarrierTest, APolicyOfItsOwnTakesThePlaceOfAnEnvironment) {
  http::ClientRequest request = with(order(), "x-pons-environment", "");
  request.fields.emplace_back(
      "x-pons-network",
      R"({"mode":"list","credentials":["TOKEN"],"allow":[{"host":"api.test.example"}]})");
  EXPECT_EQ(carry(request).status, 200);
  EXPECT_THAT(seen_, HasSubstr(kSecret));
  seen_.clear();
  for (const char* wrong : {"{", R"({"mode":"none"})", R"({"mode":"list","allow":[]})"}) {
    request.fields.back().second = wrong;
    EXPECT_GE(carry(request).status, 400) << wrong;
  }
  request.fields.back().second = R"({"mode":"public"})";
  EXPECT_EQ(carry(with(request, "x-pons-environment", "web")).status, 400) << "which of the two?";
  EXPECT_EQ(seen_, "");
}

TEST_F(CarrierTest, OtherMethodsHaveNoBody) {
  const Answer answer = carry(with(order(), "x-pons-method", "DELETE"));
  EXPECT_EQ(answer.status, 200) << answer.text;
  EXPECT_THAT(seen_, HasSubstr("DELETE /mcp Bearer"));
}

TEST_F(CarrierTest, WhatTheEnvironmentDoesNotAllowStays) {
  for (const char* url :
       {"https://else.test.example/", "https://api.test.example:8443/", "https://10.0.0.1/"}) {
    const Answer answer = carry(order(url));
    EXPECT_EQ(answer.status, 403) << url;
    EXPECT_FALSE(answer.carried);
  }
  EXPECT_EQ(carry(with(order(), "x-pons-environment", "bare")).status, 403)
      << "an environment that does not grant the credential";
  EXPECT_EQ(carry(with(order(), "x-pons-credential", "OTHER")).status, 403);
  EXPECT_EQ(carry(with(order(), "x-pons-environment", "none")).status, 404);
  EXPECT_TRUE(seen_.empty());
}

TEST_F(CarrierTest, TheCredentialDoesNotLeaveOnAPlainLine) {
  const Answer answer = carry(order("http://api.test.example/mcp"));
  EXPECT_EQ(answer.status, 403);
  EXPECT_TRUE(seen_.empty());
}

TEST_F(CarrierTest, WhatIsNoOrderIsRefused) {
  for (const auto& [field, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"x-pons-url", "ftp://api.test.example/"},
           {"x-pons-url", "https://gateway.pons.internal/"},
           {"x-pons-url", "https://tools.pons.internal/access-requests"},
           {"x-pons-url", ""},
           {"x-pons-method", "CONNECT"},
           {"x-pons-method", ""},
           {"x-pons-for", "a b"},
           {"x-pons-environment", ""}}) {
    const Answer answer = carry(with(order(), field, value));
    EXPECT_EQ(answer.status, 400) << field << " " << value;
  }
  EXPECT_TRUE(seen_.empty());
}

TEST_F(CarrierTest, AnOpenAnswerEndsWithItsCredential) {
  meanwhile_ = [this] { EXPECT_TRUE(vault_->remove("TOKEN")); };
  const Answer answer = carry(order());
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.text, "<cut off>");
  EXPECT_THAT(logged(), HasSubstr(R"("verdict":"cut")"));
}

TEST_F(CarrierTest, WhatIsNoConcernOfItsEndsNothing) {
  meanwhile_ = [this] {
    set("OTHER", kOtherSecret, {"host=elsewhere.example"});
    EXPECT_TRUE(vault_->remove("OTHER"));
  };
  EXPECT_EQ(carry(order()).text, "what came before\nwhat comes afterwards");
}

}  // namespace
}  // namespace pons::egress
