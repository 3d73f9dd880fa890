#include <gtest/gtest.h>

#include "pons/http/client.h"
#include "pons/linux/run_task.h"
#include "pons/models/protocol.h"
#include "scene.h"
#include "scripted_model.h"

namespace pons::trial {
namespace {

models::Message said(models::Role role, std::string text) {
  return {.role = role, .parts = {{.content = models::TextPart{.text = std::move(text)}}}};
}

models::Message result(std::string text) {
  return {.role = models::Role::kUser,
          .parts = {{.content = models::ToolResultPart{
                         .call_id = "c",
                         .content = {{.content = models::TextPart{.text = std::move(text)}}}}}}};
}

Asked asked(std::vector<models::Message> messages, std::vector<models::Tool> tools = {}) {
  models::Request request;
  request.messages = std::move(messages);
  request.tools = std::move(tools);
  return Asked(std::move(request));
}

TEST(Asked, TheLastWordSaysWhereTheConversationIs) {
  const Asked now = asked({said(models::Role::kUser, "Do it. [[first]]"), result("one"),
                           said(models::Role::kUser, "More. [[second]] please"), result("two")});
  EXPECT_EQ(now.step, "second");
  EXPECT_TRUE(now.since.contains("two"));
  EXPECT_FALSE(now.since.contains("one"));
  EXPECT_TRUE(now.whole.contains("one"));
}

TEST(Asked, AConversationToldInWordsIsReadLikewise) {
  const Asked now =
      asked({said(models::Role::kUser, "They said: [[first]]\nA tool said: one\nNow: [[second]]")});
  EXPECT_EQ(now.step, "second");
  EXPECT_TRUE(now.whole.contains("one"));
  EXPECT_FALSE(now.since.contains("one"));
}

TEST(Asked, WithoutAWordThereIsNoStep) {
  EXPECT_EQ(asked({said(models::Role::kUser, "[[half")}).step, "");
}

TEST(RunCommand, TakesASandboxFirstAndUsesItThen) {
  const std::vector<models::Tool> tools = {{.name = "mcp__pons__sandbox_provision"},
                                           {.name = "mcp__pons__sandbox_execute"}};
  const Reply first = run_command(asked({said(models::Role::kUser, "[[x]]")}, tools), "ls");
  ASSERT_EQ(first.calls.size(), 1U);
  EXPECT_EQ(first.calls[0].name, "mcp__pons__sandbox_provision");
  const Reply then = run_command(
      asked({said(models::Role::kUser, "[[x]]"), result("sandbox_id: sx-1")}, tools), "ls");
  EXPECT_EQ(then.calls[0].name, "mcp__pons__sandbox_execute");
  EXPECT_TRUE(then.calls[0].input.contains("\"ls\""));
}

TEST(RunCommand, AnOwnShellIsToldInItsOwnWords) {
  const Reply reply = run_command(
      asked({said(models::Role::kUser, "[[x]]")},
            {{.name = "exec_command", .schema = R"({"properties":{"cmd":{"type":"string"}}})"}}),
      "ls");
  ASSERT_EQ(reply.calls.size(), 1U);
  EXPECT_EQ(reply.calls[0].input, R"({"cmd":"ls"})");
}

TEST(RunCommand, WithoutAnyToolItSaysSo) {
  EXPECT_TRUE(run_command(asked({said(models::Role::kUser, "[[x]]")}), "ls").calls.empty());
}

// ---- over HTTP

constexpr const char* kQuestion =
    R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"[[x]]"}],)"
    R"("tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}]})";

Task<Result<std::pair<int, std::string>>> post(http::Client& client, std::string body) {
  CO_TRY(auto response,
         co_await client.send(
             {.method = "POST", .target = "/v1/chat/completions", .body = std::move(body)}));
  const int status = response.status();
  CO_TRY(auto text, co_await response.read_whole_body(1 << 20));
  co_return std::pair(status, std::move(text));
}

struct Served {
  std::unique_ptr<linux::Loop> loop = *linux::Loop::create();
  std::unique_ptr<ScriptedModel> model = *ScriptedModel::open(*loop);
  http::Client client{*loop, http::tcp_connector(*loop, "127.0.0.1", model->port()), "model"};

  std::pair<int, std::string> ask() {
    auto answer = linux::run_to_end(*loop, post(client, kQuestion));
    return answer ? *answer : std::pair(0, answer.error().describe());
  }
};

TEST(ScriptedModel, SaysAsManyPiecesAsItWasToldAndWhatWasUsed) {
  Served served;
  served.model->play("m", [](const Asked&) { return Reply{.text = "abcdef", .pieces = 3}; });
  const auto [status, text] = served.ask();
  EXPECT_EQ(status, 200);
  for (const char* piece : {"\"ab\"", "\"cd\"", "\"ef\"", "[DONE]"})
    EXPECT_TRUE(text.contains(piece)) << text;
  const auto& record = served.model->record("m");
  EXPECT_EQ(record.calls, 1U);
  EXPECT_EQ(record.pieces, 3U);
  ASSERT_EQ(record.offered.size(), 1U);
  EXPECT_TRUE(record.offered[0].contains("bash"));
  EXPECT_TRUE(text.contains(std::to_string(record.usage.output))) << text;
}

TEST(ScriptedModel, RefusesAndGarblesAsItWasTold) {
  Served served;
  served.model->play("m", [](const Asked& now) {
    return now.number == 0 ? Reply{.refusal = 429} : Reply{.is_garbled = true};
  });
  EXPECT_EQ(served.ask().first, 429);
  const auto [status, text] = served.ask();
  EXPECT_EQ(status, 200);
  EXPECT_FALSE(text.contains("[DONE]"));
  EXPECT_EQ(served.model->record("m").usage, models::Usage{});
}

TEST(ScriptedModel, NobodyElsesNameIsAnswered) {
  Served served;
  EXPECT_EQ(served.ask().first, 404);
}

// ---- logs

Json event(std::int64_t seq, const char* type, Json more = Json::object()) {
  more["seq"] = seq;
  more["type"] = type;
  return more;
}

TEST(CheckLog, OneEndForEachCallAndEachMessage) {
  EXPECT_TRUE(check_log({event(1, "user.message"), event(2, "tool.called"),
                         event(3, "tool.ended", {{"call", 2}}), event(4, "turn.ended")}));
}

TEST(CheckLog, RefusesWhatIsMissingTwiceOrOutOfOrder) {
  const Json message = event(1, "user.message");
  EXPECT_FALSE(check_log({message, event(3, "turn.ended")}));
  EXPECT_FALSE(check_log({message, event(2, "turn.ended"), event(3, "turn.ended")}));
  EXPECT_FALSE(check_log({message}));
  EXPECT_FALSE(check_log({message, event(2, "tool.called"), event(3, "turn.ended")}));
  EXPECT_FALSE(check_log({message, event(2, "tool.ended", {{"call", 3}}), event(3, "tool.called"),
                          event(4, "turn.ended")}));
}

}  // namespace
}  // namespace pons::trial
