#include "turn_trace.h"

#include <gmock/gmock.h>

namespace pons::brain {
namespace {

using namespace session;
using telemetry::Span;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A session's log, numbered by itself; each event comes a second after the one before.
class TurnTraceTest : public ::testing::Test {
 protected:
  Seq add(Event event) {
    const Seq seq = static_cast<Seq>(log_.size()) + 1;
    log_.push_back({.seq = seq, .at_ms = seq * 1'000, .event = std::move(event)});
    return seq;
  }
  std::vector<Span> spans(std::size_t from = 0) const {
    TurnTrace turn("ses_1");
    for (std::size_t i = from; i < log_.size(); ++i) turn.add(log_[i]);
    return turn.spans();
  }
  void add_turn() {
    add(UserMessage{.content = "a secret question"});
    const Seq first = add(ModelAsked{});
    add(ModelAnswered{.asked = first,
                      .content = "a secret answer",
                      .stop_reason = "tool_use",
                      .model = "large-1",
                      .usage = {.input = 1, .cache_read = 2, .cache_write = 4, .output = 8},
                      .first_ms = 500});
    const Seq call = add(ToolCalled{.asked = first,
                                    .tool_use_id = "tu_1",
                                    .name = "sandbox_execute",
                                    .input = "a secret command"});
    add(ToolEnded{.call = call, .is_error = true, .text = "a secret output"});
    const Seq second = add(ModelAsked{.attempt = 2});
    add(ModelFailed{.asked = second, .trouble = Trouble::kPassing, .message = "a secret message"});
    add(TurnEnded{.reason = EndReason::kRetriesExhausted});
  }

  std::vector<StoredEvent> log_;
};

template <class T>
T value_of(const Span& span, std::string_view attribute) {
  const Span::Value* value = span.find(attribute);
  return value != nullptr && std::holds_alternative<T>(*value) ? std::get<T>(*value) : T{};
}

std::string text_of(const Span& span, std::string_view attribute) {
  return value_of<std::string>(span, attribute);
}

TEST_F(TurnTraceTest, ATurnIsOneTraceOfQuestionsAndTools) {
  add(Created{.agent = {.name = "helper", .model = "smart"}});
  add_turn();
  const auto all = spans();
  ASSERT_EQ(all.size(), 4UZ);
  std::vector<std::string> names;
  for (const Span& span : all) {
    names.push_back(span.name);
    EXPECT_EQ(span.trace_id, telemetry::trace_id_of("ses_1:2"));
  }
  EXPECT_THAT(names, ElementsAre("invoke_agent helper", "chat smart",
                                 "execute_tool sandbox_execute", "chat smart"));
  EXPECT_TRUE(all[0].parent_id.empty());
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i].parent_id, all[0].span_id);
  EXPECT_EQ(all[0].begun_ms, 2'000);
  EXPECT_EQ(all[0].ended_ms, 9'000);
  EXPECT_EQ(all[1].begun_ms, 3'000);
  EXPECT_EQ(all[1].ended_ms, 4'000);
}

TEST_F(TurnTraceTest, AttributesHaveTheNamesOfTheConventions) {
  add(Created{.agent = {.name = "helper", .model = "smart"}, .parent = "ses_0"});
  add_turn();
  const auto all = spans();
  ASSERT_EQ(all.size(), 4UZ);
  EXPECT_EQ(text_of(all[0], "gen_ai.operation.name"), "invoke_agent");
  EXPECT_EQ(text_of(all[0], "gen_ai.conversation.id"), "ses_1");
  EXPECT_EQ(text_of(all[0], "pons.parent.conversation.id"), "ses_0");
  EXPECT_EQ(text_of(all[0], "error.type"), "retries_exhausted");
  EXPECT_TRUE(all[0].failed);
  EXPECT_EQ(all[1].kind, Span::Kind::kClient);
  EXPECT_EQ(text_of(all[1], "gen_ai.response.model"), "large-1");
  EXPECT_EQ(value_of<std::int64_t>(all[1], "gen_ai.usage.input_tokens"), 7);
  EXPECT_EQ(value_of<std::int64_t>(all[1], "gen_ai.usage.cache_read.input_tokens"), 2);
  EXPECT_EQ(value_of<std::int64_t>(all[1], "gen_ai.usage.output_tokens"), 8);
  EXPECT_EQ(value_of<double>(all[1], "gen_ai.response.time_to_first_chunk"), 0.5);
  EXPECT_THAT(value_of<std::vector<std::string>>(all[1], "gen_ai.response.finish_reasons"),
              ElementsAre("tool_use"));
  EXPECT_EQ(text_of(all[2], "gen_ai.tool.name"), "sandbox_execute");
  EXPECT_EQ(text_of(all[2], "gen_ai.tool.call.id"), "tu_1");
  EXPECT_EQ(text_of(all[2], "error.type"), "tool_error");
  EXPECT_EQ(text_of(all[3], "error.type"), "passing");
}

TEST_F(TurnTraceTest, NothingThatWasSaidIsInIt) {
  add(Created{});
  add_turn();
  for (const Span& span : spans())
    for (const auto& [name, value] : span.attributes)
      if (const auto* text = std::get_if<std::string>(&value))
        EXPECT_EQ(text->find("secret"), std::string::npos) << name;
}

TEST_F(TurnTraceTest, AToolThatTheModelMadeUpHasNoName) {
  add(Created{});
  add(UserMessage{});
  const Seq asked = add(ModelAsked{});
  add(ModelAnswered{.asked = asked});
  add(ToolCalled{.asked = asked, .name = "a_secret_name"});
  add(TurnEnded{.reason = EndReason::kInterrupted});
  const auto all = spans();
  ASSERT_EQ(all.size(), 3UZ);
  EXPECT_EQ(all[2].name, "execute_tool unknown");
  EXPECT_EQ(text_of(all[2], "error.type"), "interrupted");  // nobody ended it
  EXPECT_EQ(all[2].ended_ms, all[0].ended_ms);
  EXPECT_FALSE(all[0].failed);
}

TEST_F(TurnTraceTest, TheNextTurnIsATraceOfItsOwn) {
  add(Created{});
  add_turn();
  const auto first = spans();
  add_turn();
  const auto second = spans();
  ASSERT_EQ(second.size(), 4UZ);
  EXPECT_NE(first[0].trace_id, second[0].trace_id);
  EXPECT_EQ(second[0].trace_id, telemetry::trace_id_of("ses_1:10"));
}

TEST_F(TurnTraceTest, WhoReadsTheLogAgainMakesTheSameTrace) {
  add(Created{});
  add(UserMessage{});
  const Seq asked = add(ModelAsked{});
  add(Resumed{.epoch = 2});
  add(UserMessage{.content = "hurry"});
  add(ModelAnswered{.asked = asked});
  add(TurnEnded{});
  TurnTrace after_restart("ses_1");  // has seen the last events only
  for (std::size_t i = 3; i < log_.size(); ++i) after_restart.add(log_[i]);
  EXPECT_TRUE(after_restart.is_over());
  EXPECT_TRUE(after_restart.is_missing_events());
  EXPECT_EQ(after_restart.last(), 7);
  EXPECT_THAT(after_restart.spans(), IsEmpty());
  const auto all = spans();
  ASSERT_EQ(all.size(), 2UZ);
  EXPECT_EQ(all[0].trace_id, telemetry::trace_id_of("ses_1:2"));
  EXPECT_EQ(all[1].span_id, telemetry::span_id_of("ses_1:3"));
}

TEST_F(TurnTraceTest, WhatWasCopiedFromAnotherSessionIsNotTracedAgain) {
  add(Created{});
  add_turn();
  add(Forked{.from = "ses_0", .at = 9});
  EXPECT_THAT(spans(), IsEmpty());
  add_turn();
  EXPECT_EQ(spans().size(), 4UZ);
}

TEST_F(TurnTraceTest, AnEndlessTurnIsCutAndSaysSo) {
  add(Created{});
  add(UserMessage{});
  for (int i = 0; i < 2'000; ++i) add(ModelFailed{.asked = add(ModelAsked{})});
  add(TurnEnded{});
  const auto all = spans();
  ASSERT_EQ(all.size(), telemetry::kSpansMax);
  EXPECT_EQ(value_of<std::int64_t>(all[0], "pons.spans.left_out"), 1'001);
}

}  // namespace
}  // namespace pons::brain
