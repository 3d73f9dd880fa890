#include "session_requests.h"

#include <gtest/gtest.h>

namespace pons::brain {
namespace {

const Agents kAgents = {{"default", {.name = "default", .model = "m"}}, {"mute", {.name = "mute"}}};

TEST(SessionRequests, ANewSessionIsRead) {
  const auto wish = parse_new_session(
      R"({"agent":"default","model":"x","system":"s","title":"t","id":"mine-1","message":"hi","dedupe":"d","budget_tokens":5})",
      "p", kAgents);
  ASSERT_TRUE(wish) << wish.error().describe();
  EXPECT_EQ(wish->id, "mine-1");
  EXPECT_EQ(wish->title, "t");
  EXPECT_EQ(wish->agent.model, "x");
  EXPECT_EQ(wish->agent.system, "s");
  EXPECT_EQ(wish->agent.budget_tokens, 5);
  EXPECT_EQ(wish->message->content, R"([{"type":"text","text":"hi"}])");
  EXPECT_EQ(wish->message->dedupe, "d");
  EXPECT_TRUE(parse_new_session("", "p", kAgents)) << "all may be missing";
}

TEST(SessionRequests, NewSessionsThatCannotBeAreRefused) {
  EXPECT_EQ(parse_new_session(R"({"agent":"none"})", "p", kAgents).error().code,
            ErrorCode::kNotFound);
  EXPECT_FALSE(parse_new_session(R"({"agent":"mute"})", "p", kAgents)) << "it has no model";
  const std::string long_title = R"({"title":")" + std::string(257, 't') + "\"}";
  const std::string long_text = R"({"message":")" + std::string(kMessageBytesMax + 1, 'm') + "\"}";
  for (const std::string& body : std::vector<std::string>{"[]",
                                                          "{",
                                                          R"({"agents":1})",
                                                          R"({"agent":7})",
                                                          R"({"message":""})",
                                                          R"({"message":" \n\t"})",
                                                          R"({"message":[]})",
                                                          R"({"message":7})",
                                                          R"({"message":null})",
                                                          R"({"message":"\ud800"})",
                                                          "{\"message\":\"\xFF\"}",
                                                          R"({"title":"a\u0000b"})",
                                                          R"({"message":"a","dedupe":"a\u0000"})",
                                                          R"({"id":"a b"})",
                                                          R"({"id":"../x"})",
                                                          R"({"id":"ses_0123"})",
                                                          R"({"budget_tokens":0})",
                                                          R"({"budget_tokens":-1})",
                                                          R"({"message":"a","message":"b"})",
                                                          long_title,
                                                          long_text})
    EXPECT_FALSE(parse_new_session(body, "p", kAgents)) << body.substr(0, 60);
}

TEST(SessionRequests, WhoSendsTheSameAgainNamesTheSameSession) {
  const auto id = [](const char* body, const char* project) {
    return parse_new_session(body, project, kAgents).value().id;
  };
  const std::string made = id(R"({"message":"hi","dedupe":"a"})", "p");
  EXPECT_TRUE(made.starts_with("ses_")) << made;
  EXPECT_EQ(id(R"({"message":"hi","dedupe":"a"})", "p"), made);
  EXPECT_EQ(id(R"({"dedupe":"a"})", "p"), made);
  EXPECT_NE(id(R"({"message":"hi","dedupe":"b"})", "p"), made);
  EXPECT_NE(id(R"({"message":"hi","dedupe":"a"})", "q"), made) << "another project's";
  EXPECT_EQ(id(R"({"message":"hi","dedupe":"a","id":"mine"})", "p"), "mine");
  EXPECT_EQ(id(R"({"message":"hi"})", "p"), "") << "each is another";
}

TEST(SessionRequests, ABudgetIsNoMoreThanTheOperators) {
  const auto budget = [](const char* body, std::int64_t operators) {
    return parse_new_session(body, "p", {{"default", {.model = "m", .budget_tokens = operators}}})
        .value()
        .agent.budget_tokens;
  };
  EXPECT_EQ(budget(R"({"budget_tokens":5000})", 100), 100);
  EXPECT_EQ(budget(R"({"budget_tokens":50})", 100), 50);
  EXPECT_EQ(budget(R"({"budget_tokens":5000})", 0), 5000) << "there was none";
  EXPECT_EQ(budget("{}", 100), 100);
}

TEST(SessionRequests, BlocksAreReadAndWhatNoModelTakesIsRefused) {
  const auto with = [](const std::string& blocks) {
    return parse_new_session(R"({"message":)" + blocks + "}", "p", kAgents);
  };
  EXPECT_TRUE(with(R"([{"type":"text","text":"a\u0000\u001b[31m"}])")) << "JSON holds anything";
  EXPECT_TRUE(with(
      R"([{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}])"));
  EXPECT_TRUE(
      with(R"([{"type":"document","title":"d","source":{"type":"url","url":"https://a"}}])"));
  for (
      const char* blocks :
      {"[7]",
       "[{}]",
       R"([{"type":"text"}])",
       R"([{"type":"text","text":""}])",
       R"([{"type":"text","text":" "}])",
       R"([{"type":"text","text":7}])",
       R"([{"type":"text","text":"a","cache_control":{}}])",
       R"([{"type":"image"}])",
       R"([{"type":"image","source":{}}])",
       R"([{"type":"image","source":{"type":"file"}}])",
       R"([{"type":"image","source":{"type":"base64","data":"AA=="}}])",
       R"([{"type":"image","source":{"type":"url","url":7}}])",
       R"([{"type":"image","source":{"type":"url","url":"file:///etc/passwd"}}])",
       R"([{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}])",
       R"([{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0"}}])",
       R"([{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"iVBORw0KGgo="}}])",
       R"([{"type":"image","source":{"type":"base64","media_type":7,"data":"iVBORw0KGgo="}}])",
       R"([{"type":"image","source":{"type":"text","media_type":"text/plain","data":"a"}}])",
       R"([{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"YQ=="}}])",
       R"([{"type":"tool_result","tool_use_id":"t","content":"a"}])",
       R"([{"type":"tool_use","id":"t","name":"n","input":{}}])",
       R"([{"type":7}])"})
    EXPECT_FALSE(with(blocks)) << blocks;
  std::string many = "[";
  for (int i = 0; i < 201; ++i)
    many += std::string(i == 0 ? "" : ",") + R"({"type":"text","text":"a"})";
  EXPECT_FALSE(with(many + "]"));
}

TEST(SessionRequests, InputsAreRead) {
  const auto inputs = parse_inputs(
      R"({"events":[{"type":"user.message","text":"a","dedupe":"d"},{"type":"user.answer","call":3,"text":"b"},{"type":"user.interrupt"},{"type":"user.message","content":[{"type":"text","text":"c"}]}]})");
  ASSERT_TRUE(inputs) << inputs.error().describe();
  ASSERT_EQ(inputs->size(), 4U);
  EXPECT_EQ(std::get<session::UserMessage>((*inputs)[0]).dedupe, "d");
  EXPECT_EQ(std::get<session::UserAnswer>((*inputs)[1]).call, 3);
  EXPECT_TRUE(std::holds_alternative<session::Interrupted>((*inputs)[2]));
}

TEST(SessionRequests, NobodyWritesWhatOnlyASessionDecides) {
  for (const char* event :
       {R"({"type":"tool.ended","call":1})", R"({"type":"model.answered"})",
        R"({"type":"turn.ended"})", R"({"type":"session.created"})", R"({"type":"timer.fired"})",
        R"({"type":"user.message"})", R"({"type":"user.message","text":"a","content":[]})",
        R"({"type":"user.message","text":"a","seq":1})", R"({"type":"user.answer","text":"a"})",
        R"({"type":"user.answer","call":0,"text":"a"})", R"({"type":"user.answer","call":1})",
        R"({"type":"user.answer","call":1,"text":""})", R"({"type":"user.interrupt","why":1})",
        R"({"text":"a"})", "7", "null"})
    EXPECT_FALSE(parse_inputs(std::string(R"({"events":[)") + event + "]}")) << event;
  for (const char* body : {"", "{}", "[]", R"({"events":[]})", R"({"events":{}})"})
    EXPECT_FALSE(parse_inputs(body)) << body;
  std::string many;
  for (int i = 0; i < 51; ++i)
    many += std::string(i == 0 ? "" : ",") + R"({"type":"user.interrupt"})";
  EXPECT_FALSE(parse_inputs(R"({"events":[)" + many + "]}"));
}

TEST(SessionRequests, ASessionWithoutATitleIsNamedByWhatIsWanted) {
  const auto title = [](const std::string& body) {
    return parse_new_session(body, "p", {{"default", {.model = "m"}}}).value().title;
  };
  EXPECT_EQ(title(R"({"message":"  Count the files.\nAll of them."})"), "Count the files. …");
  EXPECT_EQ(title(R"({"message":"Hello","title":"Mine"})"), "Mine");
  EXPECT_EQ(title(R"({"message":")" + std::string(59, 'a') + R"(ä"})"),
            std::string(59, 'a') + " …");
  EXPECT_EQ(title(R"({"message":"a\u0000b\u001b[2Jc\td"})"), "a b [2Jc d");
  EXPECT_EQ(title("{}"), "");
}

TEST(SessionRequests, AForkNamesAPlaceOrNone) {
  EXPECT_EQ(parse_fork("").value(), 0);
  EXPECT_EQ(parse_fork("{}").value(), 0);
  EXPECT_EQ(parse_fork(R"({"at":7})").value(), 7);
  for (const char* body : {R"({"at":0})", R"({"at":-1})", R"({"at":"7"})", R"({"seq":7})", "[]"})
    EXPECT_FALSE(parse_fork(body)) << body;
}

}  // namespace
}  // namespace pons::brain
