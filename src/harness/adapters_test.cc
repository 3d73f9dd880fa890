#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/harness/conversation.h"
#include "told.h"

// Lines as the real programs wrote them, without members that nobody reads.

namespace pons::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Talk {
 public:
  explicit Talk(Protocol protocol, Wish wish = {.model = "m"})
      : conversation_(create_adapter(protocol, std::move(wish))) {
    keep(conversation_.start());
  }

  std::vector<std::string> hear(std::string_view lines) {
    return keep(conversation_.feed(std::string(lines) + "\n"));
  }
  void send(const std::string& text) { keep(conversation_.send(text).value()); }
  void interrupt() { keep(conversation_.interrupt()); }
  std::vector<std::string> written() { return std::exchange(lines_, {}); }
  // The last line that was written.
  Json last() { return parse_json(lines_.at(lines_.size() - 1)).value(); }
  Conversation& conversation() { return conversation_; }
  std::vector<std::string> keep(Output out) {
    for (std::string& line : out.lines) lines_.push_back(std::move(line));
    return told(out.events);
  }

 private:
  Conversation conversation_;
  std::vector<std::string> lines_;
};

// ---- Claude Code

constexpr std::string_view kClaudeReady =
    R"({"type":"control_response","response":{"subtype":"success","request_id":"pons-initialise","response":{"commands":[]}}})";

Talk claude_in_turn() {
  Talk talk(Protocol::kClaude, {.model = "m", .session = "84a2c84c"});
  EXPECT_THAT(talk.hear(kClaudeReady), ElementsAre("ready 84a2c84c"));
  talk.send("run the command");
  return talk;
}

TEST(Claude, ATurnWithATool) {
  Talk talk = claude_in_turn();
  EXPECT_THAT(
      talk.written(),
      ElementsAre(
          R"({"type":"control_request","request_id":"pons-initialise","request":{"subtype":"initialize"}})",
          R"({"type":"user","message":{"role":"user","content":"run the command"}})"));
  EXPECT_THAT(
      talk.hear(
          R"({"type":"system","subtype":"init","session_id":"84a2c84c","tools":["Bash","Read"],"mcp_servers":[]}
{"type":"system","subtype":"status","status":"requesting"}
{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg_1"}},"parent_tool_use_id":null}
{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}},"parent_tool_use_id":null}
{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I will "}},"parent_tool_use_id":null}
{"type":"stream_event","event":{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"run it."}},"parent_tool_use_id":null}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I will run it."}]},"parent_tool_use_id":null}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"echo hello"}}]},"parent_tool_use_id":null}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"of another agent"}]},"parent_tool_use_id":"toolu_9"}
{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":[{"type":"text","text":"hello"}],"is_error":false}]},"parent_tool_use_id":null}
{"duration_api_ms":105,"usage":{"input_tokens":20,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":14},"type":"result","subtype":"success","is_error":false,"result":"I will run it.","terminal_reason":"completed"})"),
      ElementsAre("tools Bash,Read", "thinks hm", "delta I will ", "delta run it.",
                  "text I will run it.", R"(call toolu_1 Bash {"command":"echo hello"})",
                  "result toolu_1 hello", "usage 20+4+3+14", "idle done"));
}

TEST(Claude, AQuestionIsAnsweredWithTheInputThatWasAskedFor) {
  Talk talk = claude_in_turn();
  EXPECT_THAT(
      talk.hear(
          R"({"type":"control_request","request_id":"q1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}})"),
      ElementsAre(R"(asks q1 Bash {"command":"ls"})"));
  talk.keep(talk.conversation().decide("q1", {.allowed = true}));
  EXPECT_EQ(
      talk.last(),
      parse_json(
          R"({"type":"control_response","response":{"subtype":"success","request_id":"q1","response":{"behavior":"allow","updatedInput":{"command":"ls"}}}})")
          .value());
  talk.hear(
      R"({"type":"control_request","request_id":"q2","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}})");
  talk.keep(talk.conversation().decide("q2", {.allowed = false, .message = "no"}));
  EXPECT_EQ(talk.last()["response"]["response"]["behavior"], "deny");
}

TEST(Claude, AnInterruptedTurnSaysSo) {
  Talk talk = claude_in_turn();
  talk.interrupt();
  EXPECT_EQ(talk.last()["request"]["subtype"], "interrupt");
  EXPECT_THAT(
      talk.hear(
          R"({"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","usage":{}})"),
      ElementsAre("usage 0+0+0+0", "idle interrupted"));
}

TEST(Claude, FailuresHaveTheirClass) {
  Talk talk = claude_in_turn();
  EXPECT_THAT(
      talk.hear(
          R"({"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":500,"error_status":429,"error":"rate_limit"}
{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"API Error: 401 scripted","usage":{}})"),
      ElementsAre("trouble rate_limit: rate_limit", "usage 0+0+0+0",
                  "failure credential: API Error: 401 scripted", "idle failed"));
}

// qwen-code speaks the same words: it leaves members out, and has no reason why it ended.
TEST(Claude, QwenCodeIsUnderstoodAsWell) {
  Talk talk = claude_in_turn();
  EXPECT_THAT(
      talk.hear(
          R"({"type":"system","subtype":"init","uuid":"u0","session_id":"84a2c84c","cwd":"/home/user","tools":["mcp__pons__sandbox_execute"],"mcp_servers":[{"name":"pons","status":"connected"}],"model":"m","permission_mode":"yolo","qwen_code_version":"0.24.4"}
{"type":"stream_event","uuid":"u1","session_id":"84a2c84c","parent_tool_use_id":null,"event":{"type":"message_start","message":{"id":"m1","role":"assistant","model":"m"}}}
{"type":"stream_event","uuid":"u2","session_id":"84a2c84c","parent_tool_use_id":null,"event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}
{"type":"stream_event","uuid":"u3","session_id":"84a2c84c","parent_tool_use_id":null,"event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I look."}}}
{"type":"assistant","uuid":"u4","session_id":"84a2c84c","parent_tool_use_id":null,"message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"call_1","name":"mcp__pons__sandbox_execute","input":{"command":"ls"}}],"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":7}}}
{"type":"user","uuid":"u5","session_id":"84a2c84c","parent_tool_use_id":null,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","is_error":false,"content":"a b"}]}}
{"type":"result","subtype":"success","uuid":"u6","session_id":"84a2c84c","is_error":false,"duration_ms":812,"duration_api_ms":640,"num_turns":2,"result":"I look.","usage":{"input_tokens":20,"output_tokens":9,"cache_read_input_tokens":4,"total_tokens":29},"permission_denials":[]})"),
      ElementsAre("tools mcp__pons__sandbox_execute", "delta I look.", "text I look.",
                  R"(call call_1 mcp__pons__sandbox_execute {"command":"ls"})", "result call_1 a b",
                  "usage 20+4+0+9", "idle done"));
}

// ---- Codex

constexpr std::string_view kCodexReady =
    R"({"id":1,"result":{"userAgent":"pons/0.166.0"}}
{"id":2,"result":{"thread":{"id":"01a1ef1a","sessionId":"01a1ef1a"}}})";

Wish codex_wish() {
  return {.model = "gw-brain",
          .directory = "/home",
          .tools = {{.name = "sandbox_execute",
                     .description = "Runs a command",
                     .input_schema = R"({"type":"object"})"}}};
}

Talk codex_in_turn() {
  Talk talk(Protocol::kCodex, codex_wish());
  EXPECT_THAT(talk.hear(kCodexReady), ElementsAre("ready 01a1ef1a"));
  talk.send("run the command");
  EXPECT_THAT(talk.hear(R"({"id":3,"result":{"turn":{"id":"t1","status":"inProgress"}}})"),
              IsEmpty());
  return talk;
}

TEST(Codex, IsGivenOurToolsAndNoPlaceToRunItsOwn) {
  Talk talk = codex_in_turn();
  const auto lines = talk.written();
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1], R"({"method":"initialized","params":{}})");
  const Json start = parse_json(lines[2]).value();
  EXPECT_EQ(start["method"], "thread/start");
  EXPECT_EQ(start["params"]["sandbox"], "read-only");
  EXPECT_TRUE(start["params"]["environments"].empty());
  EXPECT_EQ(start["params"]["dynamicTools"][0]["name"], "sandbox_execute");
  EXPECT_FALSE(start.contains("jsonrpc"));
}

TEST(Codex, ATurnWithOurTool) {
  Talk talk = codex_in_turn();
  EXPECT_THAT(
      talk.hear(
          R"({"method":"item/agentMessage/delta","params":{"turnId":"t1","itemId":"msg_1","delta":"I will "}}
{"method":"item/agentMessage/delta","params":{"turnId":"t1","itemId":"msg_1","delta":"run it."}}
{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"msg_1","text":"I will run it."},"turnId":"t1"}}
{"id":0,"method":"item/tool/call","params":{"threadId":"01a1ef1a","turnId":"t1","callId":"call_1","tool":"sandbox_execute","arguments":{"command":"echo hello"}}})"),
      ElementsAre("delta I will ", "delta run it.", "text I will run it.",
                  R"(wants 0 sandbox_execute {"command":"echo hello"})"));
  talk.keep(talk.conversation().answer("0", {.text = "hello"}));
  EXPECT_EQ(
      talk.last(),
      parse_json(
          R"({"id":0,"result":{"success":true,"contentItems":[{"type":"inputText","text":"hello"}]}})")
          .value());
  EXPECT_THAT(
      talk.hear(
          R"({"method":"thread/tokenUsage/updated","params":{"turnId":"before","tokenUsage":{"last":{"inputTokens":99,"cachedInputTokens":0,"outputTokens":99}}}}
{"method":"thread/tokenUsage/updated","params":{"turnId":"t1","tokenUsage":{"last":{"inputTokens":10,"cachedInputTokens":2,"outputTokens":7}}}}
{"method":"turn/completed","params":{"turn":{"id":"t1","status":"completed"}}})"),
      ElementsAre("usage 8+2+0+7", "idle done"));
}

TEST(Codex, ToolsOfItsOwnAreTold) {
  Talk talk = codex_in_turn();
  EXPECT_THAT(
      talk.hear(
          R"({"method":"item/started","params":{"item":{"type":"commandExecution","id":"call_1","command":"/bin/bash -lc 'echo hello'","status":"inProgress"}}}
{"method":"item/completed","params":{"item":{"type":"commandExecution","id":"call_1","command":"x","aggregatedOutput":"hello\n","exitCode":0,"status":"completed"}}}
{"method":"item/started","params":{"item":{"type":"mcpToolCall","id":"call_2","server":"s","tool":"sandbox_execute","arguments":{"command":"ls"}}}}
{"method":"item/completed","params":{"item":{"type":"mcpToolCall","id":"call_2","status":"failed","error":{"message":"gone"}}}})"),
      ElementsAre(R"(call call_1 commandExecution {"command":"/bin/bash -lc 'echo hello'"})",
                  "result call_1 hello\n", R"(call call_2 sandbox_execute {"command":"ls"})",
                  "error call_2 gone"));
}

TEST(Codex, AnInterruptWaitsForTheTurnsName) {
  Talk talk(Protocol::kCodex, codex_wish());
  talk.hear(kCodexReady);
  talk.send("x");
  talk.written();
  talk.interrupt();
  EXPECT_THAT(talk.written(), IsEmpty());
  talk.hear(R"({"method":"turn/started","params":{"turn":{"id":"t7"}}})");
  EXPECT_EQ(talk.last()["method"], "turn/interrupt");
  EXPECT_EQ(talk.last()["params"]["turnId"], "t7");
  EXPECT_THAT(
      talk.hear(
          R"({"method":"turn/completed","params":{"turn":{"id":"t7","status":"interrupted"}}})"),
      ElementsAre("idle interrupted"));
}

TEST(Codex, AnEarlierConversationIsTakenUp) {
  Wish wish = codex_wish();
  wish.session = "old";
  Talk talk(Protocol::kCodex, wish);
  talk.hear(R"({"id":1,"result":{}})");
  EXPECT_EQ(talk.last()["method"], "thread/resume");
  EXPECT_EQ(talk.last()["params"]["threadId"], "old");
}

TEST(Codex, FailuresHaveTheirClass) {
  Talk talk = codex_in_turn();
  EXPECT_THAT(
      talk.hear(
          R"({"method":"error","params":{"error":{"message":"Reconnecting... 1/5","codexErrorInfo":{"responseStreamConnectionFailed":{"httpStatusCode":401}}},"willRetry":true,"turnId":"t1"}}
{"method":"error","params":{"error":{"message":"unexpected status 401 Unauthorized","codexErrorInfo":"other"},"willRetry":false,"turnId":"t1"}}
{"method":"turn/completed","params":{"turn":{"id":"t1","status":"failed","error":{"message":"unexpected status 401 Unauthorized"}}}})"),
      ElementsAre("trouble credential: Reconnecting... 1/5",
                  "failure credential: unexpected status 401 Unauthorized", "idle failed"));
}

TEST(Codex, WhatItAsksThatWeDoNotKnowIsRefused) {
  Talk talk = codex_in_turn();
  EXPECT_THAT(talk.hear(R"({"id":"x","method":"mcpServer/elicitation/request","params":{}})"),
              IsEmpty());
  EXPECT_EQ(talk.last()["id"], "x");
  EXPECT_EQ(talk.last()["error"]["code"], -32601);
}

// ---- pi

TEST(Pi, ATurnWithATool) {
  Talk talk(Protocol::kPi);
  EXPECT_THAT(
      talk.hear(
          R"({"id":"state","type":"response","command":"get_state","success":true,"data":{"sessionId":"01a1ef1d"}})"),
      ElementsAre("ready 01a1ef1d"));
  talk.send("run the command");
  EXPECT_EQ(talk.last()["type"], "prompt");
  EXPECT_THAT(talk.hear(
                  R"({"id":"prompt","type":"response","command":"prompt","success":true}
{"type":"agent_start"}
{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"run the command"}]}}
{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"I will run it."}}
{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"I will run it."},{"type":"toolCall","id":"call_1","name":"bash","arguments":{}}],"usage":{"input":10,"output":7,"cacheRead":1,"cacheWrite":2},"stopReason":"toolUse"}}
{"type":"tool_execution_start","toolCallId":"call_1","toolName":"bash","args":{"command":"echo hello"}}
{"type":"tool_execution_end","toolCallId":"call_1","toolName":"bash","result":{"content":[{"type":"text","text":"hello\n"}]},"isError":false}
{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Done."}],"usage":{"input":10,"output":7,"cacheRead":0,"cacheWrite":0},"stopReason":"stop"}}
{"type":"agent_end","messages":[]})"),
              ElementsAre("delta I will run it.", "text I will run it.", "usage 10+1+2+7",
                          R"(call call_1 bash {"command":"echo hello"})", "result call_1 hello\n",
                          "text Done.", "usage 10+0+0+7", "idle done"));
}

TEST(Pi, EndsAreToldApart) {
  const auto end_of = [](std::string_view reason, std::string_view error) {
    Talk talk(Protocol::kPi);
    talk.hear(
        R"({"type":"response","command":"get_state","success":true,"data":{"sessionId":"s"}})");
    talk.send("x");
    auto heard = talk.hear(fmt::format(
        R"({{"type":"message_end","message":{{"role":"assistant","content":[],"stopReason":"{}","errorMessage":"{}"}}}}
{{"type":"agent_end"}})",
        reason, error));
    heard.erase(heard.begin());  // usage
    return heard;
  };
  EXPECT_THAT(end_of("aborted", "Request was aborted."), ElementsAre("idle interrupted"));
  EXPECT_THAT(end_of("error", "401 scripted 401"),
              ElementsAre("failure credential: 401 scripted 401", "idle failed"));
}

TEST(Pi, APromptThatIsRefusedEndsTheTurn) {
  Talk talk(Protocol::kPi);
  talk.hear(R"({"type":"response","command":"get_state","success":true,"data":{"sessionId":"s"}})");
  talk.send("x");
  EXPECT_THAT(
      talk.hear(R"({"type":"response","command":"prompt","success":false,"error":"no model"})"),
      ElementsAre("failure harness: no model", "idle failed"));
}

// ---- ACP

constexpr std::string_view kAcpReady =
    R"({"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}}}
{"jsonrpc":"2.0","id":2,"result":{"sessionId":"ses_1"}})";

std::string update(std::string_view body) {
  return fmt::format(
      R"({{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"ses_1","update":{}}}}})",
      body);
}

Talk acp_in_turn() {
  Talk talk(Protocol::kAcp,
            {.model = "m",
             .directory = "/home",
             .servers = {{.name = "sandbox", .url = "http://tools", .bearer = "b"}}});
  EXPECT_THAT(talk.hear(kAcpReady), ElementsAre("ready ses_1"));
  talk.send("run the command");
  return talk;
}

TEST(Acp, ATurnWithATool) {
  Talk talk = acp_in_turn();
  const Json opened = parse_json(talk.written()[1]).value();
  EXPECT_EQ(opened["params"]["mcpServers"][0]["headers"][0]["value"], "Bearer b");
  EXPECT_THAT(
      talk.hear(
          update(R"({"sessionUpdate":"available_commands_update","availableCommands":[]})") + "\n" +
          update(
              R"({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}})") +
          "\n" +
          update(
              R"({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I will "}})") +
          "\n" +
          update(
              R"({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"run it."}})") +
          "\n" +
          update(
              R"({"sessionUpdate":"tool_call","toolCallId":"call_1","title":"bash","status":"pending","rawInput":{"cwd":"/home"}})") +
          "\n" +
          update(
              R"({"sessionUpdate":"tool_call_update","toolCallId":"call_1","status":"in_progress","title":"echo hello","rawInput":{"command":"echo hello"}})") +
          "\n" +
          update(
              R"({"sessionUpdate":"tool_call_update","toolCallId":"call_1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"hello\n"}}]})") +
          "\n" +
          R"({"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":7}}})"),
      ElementsAre("thinks hm", "delta I will ", "delta run it.", "text I will run it.",
                  R"(call call_1 bash {"command":"echo hello"})", "result call_1 hello\n",
                  "usage 10+0+0+7", "idle done"));
}

TEST(Acp, ACallThatWasNeverAnnouncedIsTold) {
  Talk talk = acp_in_turn();
  EXPECT_THAT(
      talk.hear(update(
          R"({"sessionUpdate":"tool_call_update","toolCallId":"c","title":"t","status":"failed"})")),
      ElementsAre("call c t {}", "error c "));
}

TEST(Acp, AQuestionIsAnsweredByItsOwnOptions) {
  Talk talk = acp_in_turn();
  const std::string question =
      R"({"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"toolCall":{"title":"bash","rawInput":{"command":"ls"}},"options":[{"optionId":"yes-always","kind":"allow_always"},{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}})";
  EXPECT_THAT(talk.hear(question), ElementsAre(R"(asks 7 bash {"command":"ls"})"));
  talk.keep(talk.conversation().decide("7", {.allowed = true}));
  EXPECT_EQ(talk.last()["result"]["outcome"]["optionId"], "yes");
  talk.hear(question);
  talk.keep(talk.conversation().decide("7", {.allowed = false}));
  EXPECT_EQ(talk.last()["result"]["outcome"]["optionId"], "no");
}

TEST(Acp, AnInterruptAnswersWhatWasAsked) {
  Talk talk = acp_in_turn();
  talk.hear(
      R"({"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"options":[]}})");
  talk.written();
  talk.interrupt();
  const auto lines = talk.written();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(parse_json(lines[0]).value()["method"], "session/cancel");
  EXPECT_EQ(parse_json(lines[1]).value()["result"]["outcome"]["outcome"], "cancelled");
  EXPECT_THAT(talk.hear(R"({"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}})"),
              ElementsAre("idle interrupted"));
}

TEST(Acp, AConversationThatIsLoadedIsNotToldAgain) {
  Talk talk(Protocol::kAcp, {.model = "m", .session = "ses_0"});
  talk.hear(R"({"jsonrpc":"2.0","id":1,"result":{"agentCapabilities":{"loadSession":true}}})");
  EXPECT_EQ(talk.last()["method"], "session/load");
  talk.send("next");
  EXPECT_THAT(
      talk.hear(update(
          R"({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"old"}})")),
      IsEmpty());
  EXPECT_THAT(talk.hear(R"({"jsonrpc":"2.0","id":2,"result":{}})"), ElementsAre("ready ses_0"));
  EXPECT_EQ(talk.last()["method"], "session/prompt");
}

TEST(Acp, FailuresHaveTheirClass) {
  Talk talk = acp_in_turn();
  EXPECT_THAT(
      talk.hear(
          R"({"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Internal error: scripted 401","data":{"errorName":"APIError"}}})"),
      ElementsAre(R"(failure credential: Internal error: scripted 401: {"errorName":"APIError"})",
                  "idle failed"));
}

TEST(Acp, WhatItCanDoIsWhatItSays) {
  const auto talk_with = [](std::string_view capabilities, Wish wish) {
    auto talk = std::make_unique<Talk>(Protocol::kAcp, std::move(wish));
    talk->send("go");
    return std::pair(
        talk->hear(fmt::format(R"({{"jsonrpc":"2.0","id":1,"result":{{"agentCapabilities":{}}}}})",
                               capabilities)),
        std::move(talk));
  };
  EXPECT_FALSE(talk_with("{}", {.model = "m"}).second->conversation().capabilities().resume);
  EXPECT_TRUE(talk_with(R"({"loadSession":true})", {.model = "m"})
                  .second->conversation()
                  .capabilities()
                  .resume);
  EXPECT_THAT(talk_with("{}", {.model = "m", .session = "old"}).first,
              ElementsAre("failure other: it cannot go on with a conversation", "idle failed"));
  const Wish with_tools = {.model = "m", .servers = {{.name = "pons", .url = "http://tools"}}};
  EXPECT_THAT(
      talk_with(R"({"mcpCapabilities":{"http":false}})", with_tools).first,
      ElementsAre("failure other: it takes no tools by HTTP, and there are no others for it",
                  "idle failed"));
  EXPECT_THAT(talk_with(R"({"mcpCapabilities":{"http":true}})", with_tools).first, IsEmpty());
}

TEST(Acp, AToolIsNamedByWhatSaysMoreThanATitle) {
  Talk talk = acp_in_turn();
  const auto ask = [&](std::string_view call) {
    return talk.hear(fmt::format(
        R"({{"jsonrpc":"2.0","id":"{}","method":"session/request_permission","params":{{"toolCall":{},"options":[]}}}})",
        call.size(), call));
  };
  EXPECT_THAT(
      ask(R"({"title":"Look something up","_meta":{"claudeCode":{"toolName":"mcp__pons__a"}}})"),
      ElementsAre(::testing::HasSubstr(" mcp__pons__a ")));
  EXPECT_THAT(ask(R"({"title":"Tool","rawInput":{"server":"pons","tool":"a","arguments":{}}})"),
              ElementsAre(::testing::HasSubstr(" pons/a ")));
}

TEST(Acp, ItsOwnRequestsAreRefused) {
  Talk talk = acp_in_turn();
  talk.hear(
      R"({"jsonrpc":"2.0","id":9,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}})");
  EXPECT_EQ(talk.last()["error"]["code"], -32601);
}

// ---- all

TEST(Adapters, WhatIsNoneOfTheProtocolIsAnError) {
  for (const Protocol protocol :
       {Protocol::kClaude, Protocol::kCodex, Protocol::kPi, Protocol::kAcp}) {
    const auto adapter = create_adapter(protocol, {.model = "m"});
    Output out;
    for (const std::string_view line : {"", "warning: old node", "[1]", "{\"a\":", "17"})
      EXPECT_FALSE(adapter->take(line, out)) << name_of(protocol) << " " << line;
    EXPECT_THAT(out.events, IsEmpty());
  }
}

TEST(Adapters, AreFoundByTheirNames) {
  EXPECT_EQ(read_protocol("acp").value(), Protocol::kAcp);
  EXPECT_EQ(read_protocol("x").error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace pons::harness
