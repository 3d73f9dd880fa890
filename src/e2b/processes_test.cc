#include <signal.h>

#include "data_plane_fixture.h"
#include "pons/base/text.h"
#include "process_name.h"

namespace pons::e2b {
namespace {

using ::testing::HasSubstr;

class ProcessTest : public DataPlaneTest {
 protected:
  static Json start(std::vector<std::string> argv) {
    Json process = {{"cmd", argv.front()}, {"args", Json::array()}};
    for (std::size_t i = 1; i < argv.size(); ++i) process["args"].push_back(argv[i]);
    return {{"process", process}, {"stdin", false}};
  }
  // A process that goes on, and the stream that follows it.
  void start_long(Json request = {{"process", {{"cmd", "long"}}}}) {
    const std::size_t before = provider_.jobs.size();
    send_aside(group_, stream_request("process.Process/Start", request), reply_);
    run_until([&] { return provider_.jobs.size() > before; });
  }
  linux::TaskGroup group_{*loop_};
  std::optional<Reply> reply_;
};

TEST_F(ProcessTest, AStreamTellsBeginningOutputAndEnd) {
  const auto events = stream("process.Process/Start", start({"say", "hi\n", "3"}));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0], (Json{{"event", {{"start", {{"pid", 100}}}}}}));
  EXPECT_EQ(events[1]["event"]["data"]["stdout"], base64_encode("hi\n"));
  const Json& end = events[2]["event"]["end"];
  EXPECT_EQ(end["exitCode"], 3);
  EXPECT_EQ(end["exited"], true);
  EXPECT_EQ(end["status"], "exit status 3");
  EXPECT_EQ(end["error"], "exit status 3");
  EXPECT_EQ(events[3], (Json{{"end", Json::object()}}));
}

TEST_F(ProcessTest, OutputWithAGapIsNoWholeOutput) {
  start_long();
  provider_.job().output_kept = 4;
  provider_.job().print("lost and found");
  provider_.job().end(Outcome::kExit);
  run_until([&] { return reply_.has_value(); });
  const auto events = messages_of(reply_->body);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1]["end"]["error"]["code"], "internal");
  EXPECT_THAT(events[1]["end"]["error"]["message"].get<std::string>(), HasSubstr("4 bytes"));
}

TEST_F(ProcessTest, WhoConnectsLaterMissesNothingThatWasHisToRead) {
  start_long();
  provider_.job().print("before");
  std::optional<Reply> late;
  send_aside(group_, stream_request("process.Process/Connect", {{"process", {{"pid", 100}}}}),
             late);
  run_until([&] { return provider_.attached == 1; });
  // Between the two questions of whoever connects, more was written than is kept.
  provider_.job().output_kept = 9;
  provider_.job().print("gone on and on");
  provider_.job().end(Outcome::kExit);
  run_until([&] { return late.has_value(); });
  const auto events = messages_of(late->body);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[1]["event"]["data"]["stdout"], base64_encode("e on and on"));
  EXPECT_EQ(events[3], (Json{{"end", Json::object()}}));
}

TEST_F(ProcessTest, ATimeThatIsOverIsToldToWhoSetItAndOthersSeeAKill) {
  start_long();
  EXPECT_TRUE(provider_.job().spec.kill_at_timeout);
  std::optional<Reply> other;
  send_aside(group_, stream_request("process.Process/Connect", {{"process", {{"pid", 100}}}}),
             other);
  run_until([&] { return provider_.attached == 1; });
  provider_.job().end(Outcome::kTimeout);
  run_until([&] { return reply_.has_value() && other.has_value(); });
  EXPECT_EQ(messages_of(reply_->body).at(1)["end"]["error"]["code"], "deadline_exceeded");
  EXPECT_EQ(messages_of(other->body).at(1)["event"]["end"]["error"], "signal: killed");
}

TEST_F(ProcessTest, WhatIsAskedForIsWhatRuns) {
  Json request = start({"say", "x"});
  request["process"]["envs"] = {{"A", "b"}};
  request["process"]["cwd"] = "~/there/../x";
  auto wire = stream_request("process.Process/Start", request);
  wire.fields.emplace_back("Authorization", "Basic " + base64_encode("user:"));
  wire.fields.emplace_back("Connect-Timeout-Ms", "60000");
  EXPECT_FALSE(send(std::move(wire)).cut);
  const JobSpec& spec = provider_.job().spec;
  EXPECT_EQ(spec.argv, (std::vector<std::string>{"say", "x"}));
  EXPECT_EQ(spec.environment.at("A"), "b");
  EXPECT_EQ(spec.directory, "/home/user/x");
  EXPECT_EQ(spec.user, "user");
  EXPECT_EQ(spec.timeout, std::chrono::minutes(1));
  EXPECT_FALSE(spec.input_open);
}

TEST_F(ProcessTest, ASignalIsToldAsTheSdksExpectIt) {
  start_long();
  EXPECT_EQ(call("process.Process/SendSignal",
                 {{"process", {{"pid", 100}}}, {"signal", "SIGNAL_SIGKILL"}})
                .status,
            200);
  run_until([&] { return reply_.has_value(); });
  const auto events = messages_of(reply_->body);
  const Json& end = events.at(1)["event"]["end"];
  EXPECT_EQ(end["exitCode"], -1);
  EXPECT_EQ(end["exited"], false);
  EXPECT_EQ(end["error"], "signal: killed");
  EXPECT_EQ(call("process.Process/SendSignal",
                 {{"process", {{"pid", 100}}}, {"signal", "SIGNAL_SIGKILL"}})
                .status,
            404);
  EXPECT_EQ(
      call("process.Process/SendSignal", {{"process", {{"pid", 100}}}, {"signal", "HUP"}}).status,
      400);
}

TEST_F(ProcessTest, InputReachesTheProcessAndEnds) {
  start_long();
  const Json process = {{"pid", 100}};
  EXPECT_EQ(call("process.Process/SendInput",
                 {{"process", process}, {"input", {{"stdin", base64_encode("abc")}}}})
                .status,
            200);
  EXPECT_EQ(provider_.job().input, "abc");
  EXPECT_EQ(call("process.Process/CloseStdin", {{"process", process}}).status, 200);
  EXPECT_TRUE(provider_.job().input_closed);
  const Reply late = call("process.Process/SendInput",
                          {{"process", process}, {"input", {{"stdin", base64_encode("abc")}}}});
  EXPECT_EQ(late.status, 500);
  EXPECT_EQ(json_of(late)["code"], "internal");
  for (const Json& input : {Json{{"stdin", "no base64!"}}, Json::object(), Json(7)})
    EXPECT_EQ(call("process.Process/SendInput", {{"process", process}, {"input", input}}).status,
              400);
}

TEST_F(ProcessTest, InputMayComeAsAStreamOfMessages) {
  start_long();
  const auto message = [](const Json& json) {
    return make_envelope(Envelope::kMessage, dump_json(json));
  };
  http::ClientRequest request{
      .method = "POST", .target = "/process.Process/StreamInput", .fields = let_in_to_stream()};
  request.body = message({{"start", {{"process", {{"pid", 100}}}}}}) +
                 message({{"data", {{"input", {{"stdin", base64_encode("one ")}}}}}}) +
                 message({{"keepalive", Json::object()}}) +
                 message({{"data", {{"input", {{"stdin", base64_encode("two")}}}}}});
  const auto answers = messages_of(send(request).body);
  EXPECT_EQ(answers.size(), 2U);
  EXPECT_EQ(provider_.job().input, "one two");
  request.body.pop_back();
  EXPECT_THAT(send(request).body, HasSubstr("invalid_argument"));
}

TEST_F(ProcessTest, ATerminalHasItsSizeAndItsOwnWordForOutput) {
  start_long({{"process", {{"cmd", "bash"}}},
              {"pty", {{"size", {{"rows", 33}, {"cols", 99}}}}},
              {"stdin", false}});
  EXPECT_EQ(provider_.job().spec.terminal->rows, 33);
  EXPECT_EQ(provider_.job().spec.terminal->columns, 99);
  EXPECT_TRUE(provider_.job().spec.input_open);
  EXPECT_EQ(call("process.Process/Update",
                 {{"process", {{"pid", 100}}}, {"pty", {{"size", {{"rows", 5}, {"cols", 6}}}}}})
                .status,
            200);
  EXPECT_EQ(provider_.job().size->columns, 6);
  provider_.job().print("$ ");
  provider_.job().end(Outcome::kExit, 0);
  run_until([&] { return reply_.has_value(); });
  EXPECT_EQ(messages_of(reply_->body).at(1)["event"]["data"]["pty"], base64_encode("$ "));
}

TEST_F(ProcessTest, TheListSaysWhatRunsAndHow) {
  Json request = {{"process", {{"cmd", "long"}, {"args", {"a"}}, {"envs", {{"K", "v"}}}}},
                  {"tag", "mine"}};
  start_long(request);
  provider_.jobs.push_back(std::make_shared<FakeJob>(*loop_));
  provider_.job(1).info.id = "job-of-someone-else";
  const Json list = json_of(call("process.Process/List", Json::object()))["processes"];
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["pid"], 100);
  EXPECT_EQ(list[0]["tag"], "mine");
  EXPECT_EQ(list[0]["config"], request["process"]);
  // A warden that was restarted has forgotten the label.
  provider_.job().info.label.clear();
  const Json later = json_of(call("process.Process/List", Json::object()))["processes"];
  EXPECT_EQ(later[0]["tag"], "mine");
  provider_.job().end(Outcome::kExit);
  EXPECT_TRUE(json_of(call("process.Process/List", Json::object()))["processes"].empty());
}

TEST_F(ProcessTest, ConnectFindsByTagAndRepeatsNothing) {
  for (const std::string& tag : {std::string("short"), std::string(300, 'l')}) {
    provider_.jobs.clear();
    start_long({{"process", {{"cmd", "long"}}}, {"tag", tag}});
    EXPECT_LE(provider_.job().info.id.size(), 96U);
    provider_.job().print("before ");
    std::optional<Reply> second;
    send_aside(group_, stream_request("process.Process/Connect", {{"process", {{"tag", tag}}}}),
               second);
    run_until(
        [&, start = loop_->now()] { return loop_->now() > start + std::chrono::milliseconds(50); });
    provider_.job().print("after");
    provider_.job().end(Outcome::kExit);
    run_until([&] { return second.has_value(); });
    const auto events = messages_of(second->body);
    EXPECT_EQ(events.at(0)["event"]["start"]["pid"], 100);
    EXPECT_EQ(events.at(1)["event"]["data"]["stdout"], base64_encode("after"));
    EXPECT_EQ(events.at(2)["event"]["end"]["exitCode"], 0);
  }
  const auto none = stream("process.Process/Connect", {{"process", {{"tag", "other"}}}});
  EXPECT_EQ(none.at(0)["end"]["error"]["code"], "not_found");
}

TEST_F(ProcessTest, OneThatHasEndedIsFoundForHalfAMinute) {
  (void)stream("process.Process/Start", start({"say", "hi\n"}));
  provider_.job().info.ended_ago = std::chrono::seconds(29);
  const auto kept = stream("process.Process/Connect", {{"process", {{"pid", 100}}}});
  EXPECT_EQ(kept.at(0)["event"]["start"]["pid"], 100);
  EXPECT_EQ(kept.at(1)["event"]["end"]["exited"], true);
  provider_.job().info.ended_ago = std::chrono::seconds(30);
  const auto gone = stream("process.Process/Connect", {{"process", {{"pid", 100}}}});
  EXPECT_EQ(gone.at(0)["end"]["error"]["code"], "not_found");
}

TEST_F(ProcessTest, AClientThatLeavesLeavesTheProcessRunning) {
  {
    linux::TaskGroup leaving(*loop_);
    std::optional<Reply> never;
    send_aside(leaving, stream_request("process.Process/Start", {{"process", {{"cmd", "long"}}}}),
               never);
    run_until([&] { return !provider_.jobs.empty(); });
  }
  run_until(
      [&, start = loop_->now()] { return loop_->now() > start + std::chrono::milliseconds(50); });
  EXPECT_EQ(provider_.job().info.outcome, Outcome::kRunning);
  EXPECT_TRUE(provider_.job().signals.empty());
  EXPECT_EQ(provider_.jobs.front().use_count(), 1);  // nobody follows it any more
}

TEST_F(ProcessTest, ASandboxThatDiesCutsTheStreamWithoutAnEnd) {
  start_long();
  provider_.job().print("x");
  provider_.job().end(Outcome::kInterrupted);
  run_until([&] { return reply_.has_value(); });
  EXPECT_TRUE(reply_->cut);
  EXPECT_EQ(reply_->status, 200);
}

TEST_F(ProcessTest, SilenceIsFilledAndTheDeadlineEndsTheStream) {
  auto request = stream_request("process.Process/Start", {{"process", {{"cmd", "long"}}}});
  request.fields.emplace_back("Keepalive-Ping-Interval", "1");
  request.fields.emplace_back("Connect-Timeout-Ms", "1300");
  const auto events = messages_of(send(std::move(request)).body);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_TRUE(events[1]["event"].contains("keepalive"));
  EXPECT_EQ(events[2]["end"]["error"]["code"], "deadline_exceeded");
  EXPECT_EQ(provider_.job().spec.timeout, std::chrono::milliseconds(1300));
}

TEST_F(ProcessTest, WhatIsWrongIsToldInTheStream) {
  const auto code = [&](const Json& request) {
    return stream("process.Process/Start", request).at(0)["end"]["error"]["code"];
  };
  EXPECT_EQ(code(Json::object()), "invalid_argument");
  EXPECT_EQ(code({{"process", {{"cmd", ""}}}}), "invalid_argument");
  EXPECT_EQ(code({{"process", {{"cmd", "x"}, {"args", {1}}}}}), "invalid_argument");
  EXPECT_EQ(code({{"process", {{"cmd", "x"}, {"cwd", "~bob"}}}}), "invalid_argument");
  EXPECT_EQ(code({{"process", {{"cmd", "x"}}}, {"tag", std::string(5000, 't')}}),
            "invalid_argument");
  provider_.execute_error =
      make_error(ErrorCode::kInvalid, "ask for sandbox", "enter directory (No such file)");
  const auto events =
      stream("process.Process/Start", {{"process", {{"cmd", "x"}, {"cwd", "/none"}}}});
  EXPECT_EQ(events.at(0)["end"]["error"]["message"], "cwd '/none' does not exist");
  provider_.execute_error =
      make_error(ErrorCode::kInvalid, "ask for sandbox", "find user (No such file)");
  EXPECT_EQ(code({{"process", {{"cmd", "x"}}}}), "unauthenticated");
  provider_.execute_error =
      make_error(ErrorCode::kInvalid, "ask for sandbox", "execute: /tmp/find user (No such file)");
  EXPECT_EQ(code({{"process", {{"cmd", "x"}}}}), "invalid_argument");
}

TEST_F(ProcessTest, MessagesOfAnotherShapeAreRefused) {
  auto request = stream_request("process.Process/Start", start({"say", "x"}));
  for (const std::string& body :
       {std::string(), std::string("\0\0\0\0", 4), request.body + "x",
        std::string("\1\0\0\0\2{}", 7), std::string("\0\xFF\xFF\xFF\xFF{}", 7)}) {
    auto copy = request;
    copy.body = body;
    EXPECT_EQ(messages_of(send(copy).body).at(0)["end"]["error"]["code"], "invalid_argument");
  }
  request.fields.back().second = "application/grpc";
  EXPECT_EQ(send(request).status, 415);
  EXPECT_TRUE(provider_.jobs.empty());
}

TEST(ProcessNameTest, AnyTagFitsAndIsFoundAgain) {
  for (const std::string& tag : {std::string(), std::string("a.b/ü\n\0", 8), std::string(32, 'x'),
                                 std::string(33, 'x'), std::string(4096, '\xFF')}) {
    const std::string job = make_process_name(ProcessIo::kTerminal, tag);
    EXPECT_LE(job.size(), 96U);
    const auto name = parse_process_name(job);
    ASSERT_TRUE(name);
    EXPECT_EQ(name->io, ProcessIo::kTerminal);
    EXPECT_EQ(name->tag_code, tag_code(tag));
    EXPECT_EQ(tag_of(name->tag_code), tag.size() <= 32 ? std::optional(tag) : std::nullopt);
  }
  EXPECT_EQ(parse_process_name(make_process_name(ProcessIo::kPipes, std::nullopt))->tag_code, "");
  for (const char* other : {"", "e2b-", "job-x", "e2b-x01234567890123456789", "e2b-p0123456789"})
    EXPECT_FALSE(parse_process_name(other)) << other;
}

}  // namespace
}  // namespace pons::e2b
