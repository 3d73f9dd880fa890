#include "pons/e2b/data_plane.h"

#include "address.h"
#include "data_plane_fixture.h"
#include "pons/base/text.h"

namespace pons::e2b {
namespace {

using ::testing::HasSubstr;

http::RequestHead head_of(std::string_view text, std::size_t& scanned) {
  http::RequestHead head;
  const auto parse = http::parse_request_head(text, scanned, {}, head);
  CHECK(parse.state == http::HeadParse::State::kDone);
  return head;
}

std::string address_text(const std::string& host, std::string_view domain,
                         const std::string& fields = "") {
  const std::string text = "GET / HTTP/1.1\r\nHost: " + host + "\r\n" + fields + "\r\n";
  std::size_t scanned = 0;
  const auto address = find_address(head_of(text, scanned), domain);
  if (!address) return "refused";
  if (!*address) return "";
  return (*address)->sandbox + ":" + std::to_string((*address)->port);
}

TEST(AddressTest, AHostNamesPortAndSandbox) {
  EXPECT_EQ(address_text("49983-abc.box.test", "box.test"), "abc:49983");
  EXPECT_EQ(address_text("80-sbx-1.BOX.test:7600", "box.test"), "sbx-1:80");
  EXPECT_EQ(address_text("80-abc.box.test:7600", "box.test:7600"), "abc:80");
  EXPECT_EQ(address_text("80-abc.box.test.", "box.test"), "abc:80");
  for (const char* other : {"box.test", "abc.box.test", "x80-abc.box.test", "0-abc.box.test",
                            "65536-abc.box.test", "80-a.b.box.test", "80-abc.box.test.evil",
                            "80-abcbox.test", "80-.box.test", "-abc.box.test"})
    EXPECT_EQ(address_text(other, "box.test"), "") << other;
  EXPECT_EQ(address_text("80-abc.box.test:1", "box.test:7600"), "");
}

TEST(AddressTest, WithoutADomainAnyHostMayNameASandboxOfOurs) {
  const std::string id = make_sandbox_id();
  EXPECT_EQ(address_text("3000-" + id + ".e2b.app", ""), id + ":3000");
  EXPECT_EQ(address_text("49983-" + id + ".localhost:7600", ""), id + ":49983");
  EXPECT_EQ(address_text("3000-" + id + ".E2B.app.", ""), id + ":3000");
  EXPECT_EQ(address_text("3000-" + id + ".e2b.app", "", "E2b-Sandbox-Id: def\r\n"), "refused");
  for (const std::string& other :
       {"3000-" + id, "3000-" + id + ".", id + ".e2b.app", "0-" + id + ".e2b.app",
        "3000-" + id + "x.e2b.app", "3000-x" + id.substr(1) + ".e2b.app", "a.3000-" + id + ".app",
        "3000-" + id.substr(0, 10) + "-" + id.substr(11) + ".e2b.app", "3000-x--" + id + ".app",
        std::string("80-abc.box.test"), std::string("127.0.0.1:7600"), std::string("[::1]:7600")})
    EXPECT_EQ(address_text(other, ""), "") << other;
}

TEST(AddressTest, FieldsAndHostMustNotContradictEachOther) {
  EXPECT_EQ(address_text("80-abc.box.test", "box.test",
                         "E2b-Sandbox-Id: def\r\nE2b-Sandbox-Port: 80\r\n"),
            "refused");
  EXPECT_EQ(address_text("80-abc.box.test", "box.test", "E2b-Sandbox-Id: abc\r\n"), "refused");
  EXPECT_EQ(address_text("80-abc.box.test", "box.test",
                         "E2b-Sandbox-Id: abc\r\nE2b-Sandbox-Port: 80\r\n"),
            "abc:80");
  EXPECT_EQ(address_text("x", "", "E2b-Sandbox-Id: def\r\nE2b-Sandbox-Port: 3000\r\n"), "def:3000");
  EXPECT_EQ(address_text("x", "", "E2b-Sandbox-Id: a\r\ne2b-sandbox-id: b\r\n"), "refused");
  EXPECT_EQ(address_text("x", "", "E2b-Sandbox-Id: def\r\n"), "def:49983");
  EXPECT_EQ(address_text("x", "", "E2b-Sandbox-Id: ../x\r\n"), "refused");
  EXPECT_EQ(address_text("x", "", "E2b-Sandbox-Id: a\r\nE2b-Sandbox-Port: 1e3\r\n"), "refused");
}

class DoorTest : public DataPlaneTest {
 protected:
  bool is_for_sandbox(std::string text) {
    std::size_t scanned = 0;
    return plane_.is_for_sandbox(head_of(text, scanned));
  }
  http::ClientRequest health(std::string id = "s1") {
    return {.target = "/health", .fields = {{"E2b-Sandbox-Id", std::move(id)}}};
  }
};

TEST_F(DoorTest, WhatIsForASandboxIsKnownByItsHead) {
  EXPECT_TRUE(is_for_sandbox("GET / HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: a\r\n\r\n"));
  EXPECT_TRUE(is_for_sandbox("GET / HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: ?\r\n\r\n"));
  EXPECT_TRUE(is_for_sandbox("GET / HTTP/1.1\r\nHost: 80-a.box.test\r\n\r\n"));
  EXPECT_TRUE(is_for_sandbox("GET /files HTTP/1.1\r\nHost: x\r\nX-Access-Token: a\r\n\r\n"));
  EXPECT_TRUE(is_for_sandbox("GET /files?signature=v1_x HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_FALSE(is_for_sandbox("GET /files HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_FALSE(is_for_sandbox("GET /sandboxes HTTP/1.1\r\nHost: x\r\nX-Access-Token: a\r\n\r\n"));
}

TEST_F(DoorTest, HealthSaysWhetherTheSandboxRuns) {
  EXPECT_EQ(send(health()).status, 204);
  const Reply gone = send(health("none"));
  EXPECT_EQ(gone.status, 502);
  EXPECT_EQ(json_of(gone),
            (Json{{"sandboxId", "none"}, {"message", "The sandbox was not found"}, {"code", 502}}));
  // One that was known, and has ended since.
  provider_.sandboxes.clear();
  EXPECT_EQ(send(health()).status, 502);
  EXPECT_EQ(call("process.Process/List", Json::object()).status, 502);
  EXPECT_EQ(send(stream_request("process.Process/Start", {{"process", {{"cmd", "x"}}}})).status,
            502);
  EXPECT_EQ(get("/files?path=/etc/passwd").status, 502);
}

TEST_F(DoorTest, TrafficWakesNoSandboxWhosePauseKeptFilesOnly) {
  add_sandbox({.sandbox = "s2", .project = "p", .access_token = "t", .auto_resume = true},
              State::kPaused);
  provider_.sandboxes["s2"].labels[kColdPauseLabel] = "yes";
  EXPECT_EQ(send(health("s2")).status, 502);
  EXPECT_EQ(provider_.resumes, 0);
  provider_.sandboxes["s2"].labels.erase(kColdPauseLabel);
  EXPECT_EQ(send(health("s2")).status, 204);
  EXPECT_EQ(provider_.resumes, 1);
}

TEST_F(DoorTest, WhatGetsNoFurtherIsRefusedInTheWordsOfItsProtocol) {
  auto unary = let_in();
  unary[0].second = "?";
  const Reply list =
      send({.method = "POST", .target = "/process.Process/List", .fields = unary, .body = "{}"});
  EXPECT_EQ(list.status, 400);
  EXPECT_EQ(json_of(list)["code"], "invalid_argument");
  auto start = stream_request("process.Process/Start", {{"process", {{"cmd", "x"}}}});
  start.fields[0].second = "?";
  const Reply stream = send(std::move(start));
  EXPECT_EQ(stream.status, 200);
  EXPECT_EQ(messages_of(stream.body).at(0)["end"]["error"]["code"], "invalid_argument");
  EXPECT_EQ(json_of(send({.target = "/files?path=/x", .fields = unary}))["code"], 400);
}

TEST_F(DoorTest, WithoutTheTokenNothingButHealthIsTold) {
  for (const char* token : {"", "token-2", "token-1 x", "token-"}) {
    auto fields = let_in();
    fields[2].second = token;
    for (const char* target : {"/process.Process/List", "/filesystem.Filesystem/Stat"})
      EXPECT_EQ(send({.method = "POST", .target = target, .fields = fields, .body = "{}"}).status,
                401);
    EXPECT_EQ(send({.target = "/metrics", .fields = fields}).status, 401);
    EXPECT_EQ(send({.target = "/files?path=/etc/passwd", .fields = fields}).status, 401);
  }
  // Sandboxes of others are none of this protocol.
  provider_.sandboxes["plain"] = {.id = "plain"};
  auto fields = let_in();
  fields[0].second = "plain";
  EXPECT_EQ(send({.target = "/metrics", .fields = fields}).status, 502);
}

TEST_F(DoorTest, AUserMustBeNamedProperly) {
  for (const char* authorization : {"Bearer x", "Basic !", "Basic"}) {
    auto fields = let_in();
    fields.emplace_back("Authorization", authorization);
    EXPECT_EQ(
        send({.method = "POST", .target = "/process.Process/List", .fields = fields, .body = "{}"})
            .status,
        401);
  }
}

TEST_F(DoorTest, UnknownMethodsAndWrongMessagesAreRefused) {
  EXPECT_EQ(call("process.Process/Explode", Json::object()).status, 404);
  EXPECT_EQ(get("/process.Process/List").status, 404);
  auto fields = let_in();
  EXPECT_EQ(
      send({.method = "POST", .target = "/process.Process/List", .fields = fields, .body = "{"})
          .status,
      400);
  fields.back().second = "application/proto";
  EXPECT_EQ(send({.method = "POST", .target = "/process.Process/List", .fields = fields}).status,
            415);
}

TEST_F(DoorTest, ASleepingSandboxIsWokenOnlyWhereItWasSoDecided) {
  provider_.sandboxes.at("s1").state = State::kPaused;
  EXPECT_EQ(send(health()).status, 502);
  EXPECT_EQ(call("process.Process/List", Json::object()).status, 502);
  EXPECT_EQ(provider_.resumes, 0);
  add_sandbox({.sandbox = "s2", .project = "p", .access_token = "token-2", .auto_resume = true},
              State::kPaused);
  auto fields = let_in();
  fields[0].second = "s2";
  fields[2].second = "token-2";
  EXPECT_EQ(
      send({.method = "POST", .target = "/process.Process/List", .fields = fields, .body = "{}"})
          .status,
      200);
  EXPECT_EQ(provider_.resumes, 1);
  provider_.sandboxes.at("s2").state = State::kPaused;
  fields.back().second = "application/octet-stream";
  EXPECT_EQ(send({.method = "POST", .target = "/files?path=/w", .fields = fields, .body = "whole"})
                .status,
            200);
  EXPECT_EQ(provider_.files.at("/w").content, "whole");
  EXPECT_EQ(provider_.resumes, 2);
}

TEST_F(DoorTest, FiguresAndVariablesAreTold) {
  const Json figures = json_of(get("/metrics"));
  EXPECT_EQ(figures["mem_used"], 100);
  EXPECT_EQ(figures["mem_total"], 512U << 20);
  EXPECT_EQ(figures["cpu_count"], 2);
  linux::TaskGroup group(*loop_);
  std::optional<Reply> reply;
  send_aside(group, {.target = "/envs", .fields = let_in()}, reply);
  run_until([&] { return !provider_.jobs.empty(); });
  provider_.job().print(std::string("A=b=c\0nonsense\0B=\0", 18));
  provider_.job().end(Outcome::kExit);
  run_until([&] { return reply.has_value(); });
  EXPECT_EQ(json_of(*reply), (Json{{"A", "b=c"}, {"B", ""}}));
}

}  // namespace
}  // namespace pons::e2b
