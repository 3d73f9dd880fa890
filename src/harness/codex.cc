#include <optional>

#include "adapters.h"
#include "fields.h"
#include "rpc.h"

// `codex app-server`: JSON-RPC without its version. Tools of ours are asked for over the standard
// streams (dynamicTools), so that the harness needs no server of tools and no way to one.

namespace pons::harness {

namespace {

enum class Asked : std::uint8_t { kInitialise, kThread, kTurn, kInterrupt };

// Kinds of items that are calls of tools which Codex runs by itself.
bool is_own_tool(std::string_view type) {
  return type == "commandExecution" || type == "mcpToolCall" || type == "fileChange" ||
         type == "webSearch";
}

Fault fault_of_error(const Json& error) {
  const Json& info = member(error, "codexErrorInfo");
  if (info.is_object())
    for (const auto& [kind, detail] : info.items()) {
      const std::int64_t status = number_at(detail, "httpStatusCode");
      if (status != 0) return fault_of(status, text_at(error, "message"));
      if (kind == "httpConnectionFailed" || kind == "responseStreamConnectionFailed" ||
          kind == "responseStreamDisconnected" || kind == "responseTooManyFailedAttempts")
        return Fault::kUnavailable;
    }
  const std::string word = info.is_string() ? info.get<std::string>() : std::string();
  if (word == "unauthorized") return Fault::kCredential;
  if (word == "rateLimitExceeded") return Fault::kRateLimit;
  if (word == "usageLimitExceeded" || word == "sessionBudgetExceeded") return Fault::kBudget;
  if (word == "serverOverloaded" || word == "internalServerError") return Fault::kUnavailable;
  return fault_of(text_at(error, "message"));
}

class Codex final : public Adapter {
 public:
  explicit Codex(Wish wish) : wish_(std::move(wish)) {}

  Capabilities capabilities() const override {
    return {.deltas = true,
            .thinking = true,
            .permissions = true,
            .tool_requests = true,
            .usage = true,
            .resume = true};
  }

  void greet(Output& out) override {
    rpc_.ask(Asked::kInitialise, "initialize",
             {{"clientInfo", {{"name", "pons"}, {"title", "Pons"}, {"version", "1"}}},
              {"capabilities", {{"experimentalApi", true}}}},
             out);
  }

  void send(std::string_view text, Output& out) override {
    turn_.clear();
    wants_interrupt_ = false;
    rpc_.ask(Asked::kTurn, "turn/start",
             {{"threadId", thread_},
              {"input", Json::array({{{"type", "text"}, {"text", std::string(text)}}})}},
             out);
  }

  void interrupt(Output& out) override {
    wants_interrupt_ = true;  // the turn may not have a name yet
    if (turn_.empty()) return;
    rpc_.ask(Asked::kInterrupt, "turn/interrupt", {{"threadId", thread_}, {"turnId", turn_}}, out);
  }

  void decide(const std::string& id, const Decision& decision, Output& out) override {
    rpc_.reply(id, {{"decision", decision.allowed ? "accept" : "decline"}}, out);
  }

  void answer(const std::string& id, const ToolAnswer& answer, Output& out) override {
    rpc_.reply(id,
               {{"success", !answer.is_error},
                {"contentItems", Json::array({{{"type", "inputText"}, {"text", answer.text}}})}},
               out);
  }

  Result<void> take(std::string_view line, Output& out) override {
    const Json message = TRY(read_line(line));
    const std::string method = text_at(message, "method");
    if (method.empty()) {
      take_answer(message, out);
    } else if (const std::string id = request_id(message); !id.empty()) {
      take_request(id, method, message, out);
    } else {
      take_notification(method, member(message, "params"), out);
    }
    return {};
  }

 private:
  void take_answer(const Json& message, Output& out) {
    const auto asked = rpc_.take_answer(message);
    if (!asked) return;
    const Json& result = member(message, "result");
    if (message.contains("error")) {
      if (*asked == Asked::kInterrupt) return;
      out.events.emplace_back(Failure{.fault = Fault::kHarness, .message = error_text(message)});
      out.events.emplace_back(Idle{Ending::kFailed});
      return;
    }
    switch (*asked) {
      case Asked::kInitialise:
        rpc_.tell("initialized", Json::object(), out);
        open_thread(out);
        break;
      case Asked::kThread:
        thread_ = text_at(member(result, "thread"), "id");
        out.events.emplace_back(Ready{thread_});
        break;
      case Asked::kTurn:
        note_turn(text_at(member(result, "turn"), "id"), out);
        break;
      case Asked::kInterrupt:
        break;
    }
  }

  void open_thread(Output& out) {
    Json params = {{"cwd", wish_.directory},
                   {"model", wish_.model},
                   {"approvalPolicy", "never"},
                   {"sandbox", wish_.only_these_tools ? "read-only" : "danger-full-access"}};
    if (wish_.only_these_tools) params["environments"] = Json::array();
    if (!wish_.session.empty()) params["threadId"] = wish_.session;
    if (!wish_.tools.empty() && wish_.session.empty()) params["dynamicTools"] = tools();
    rpc_.ask(Asked::kThread, wish_.session.empty() ? "thread/start" : "thread/resume",
             std::move(params), out);
  }

  Json tools() const {
    Json list = Json::array();
    for (const OfferedTool& tool : wish_.tools)
      list.push_back({{"type", "function"},
                      {"name", tool.name},
                      {"description", tool.description},
                      {"inputSchema", Json::parse(tool.input_schema)}});
    return list;
  }

  void note_turn(std::string turn, Output& out) {
    const bool is_new = turn_.empty() && !turn.empty();
    if (is_new) turn_ = std::move(turn);
    if (is_new && wants_interrupt_) interrupt(out);
  }

  void take_request(const std::string& id, const std::string& method, const Json& message,
                    Output& out) {
    const Json& params = member(message, "params");
    if (method == "item/tool/call") {
      out.events.emplace_back(ToolRequest{.id = id,
                                          .name = text_at(params, "tool"),
                                          .input = object_text(member(params, "arguments"))});
    } else if (method.ends_with("/requestApproval")) {
      const Json& command = member(params, "command");
      out.events.emplace_back(PermissionRequest{
          .id = id,
          .tool = command.is_null() ? "fileChange" : "commandExecution",
          .input = command.is_string() ? dump_json({{"command", command}}) : "{}"});
    } else {
      rpc_.refuse(member(message, "id"), method, out);
    }
  }

  void take_notification(const std::string& method, const Json& params, Output& out) {
    if (method == "turn/started")
      note_turn(text_at(member(params, "turn"), "id"), out);
    else if (method == "item/agentMessage/delta")
      out.events.emplace_back(TextDelta{text_at(params, "delta")});
    else if (method == "item/reasoning/summaryTextDelta" || method == "item/reasoning/textDelta")
      out.events.emplace_back(ThinkingDelta{text_at(params, "delta")});
    else if (method == "item/started")
      take_item_begin(member(params, "item"), out);
    else if (method == "item/completed")
      take_item_end(member(params, "item"), out);
    else if (method == "thread/tokenUsage/updated")
      take_usage(params, out);
    else if (method == "error")
      take_error(params, out);
    else if (method == "turn/completed")
      take_end(member(params, "turn"), out);
  }

  static void take_item_begin(const Json& item, Output& out) {
    const std::string type = text_at(item, "type");
    if (!is_own_tool(type)) return;
    const bool is_remote = type == "mcpToolCall";
    Json input = Json::object();
    for (const char* key : {"command", "changes", "query"})
      if (const Json& value = member(item, key); !value.is_null()) input[key] = value;
    out.events.emplace_back(
        ToolCall{.id = text_at(item, "id"),
                 .name = is_remote ? text_at(item, "tool") : type,
                 .input = is_remote ? object_text(member(item, "arguments")) : dump_json(input)});
  }

  static void take_item_end(const Json& item, Output& out) {
    const std::string type = text_at(item, "type");
    if (type == "agentMessage") {
      out.events.emplace_back(Text{text_at(item, "text")});
      return;
    }
    if (!is_own_tool(type)) return;
    std::string text = text_at(item, "aggregatedOutput");
    if (type == "mcpToolCall") text = content_text(member(member(item, "result"), "content"));
    if (const Json& error = member(item, "error"); error.is_object())
      text = text_at(error, "message");
    const std::string status = text_at(item, "status");
    out.events.emplace_back(ToolResult{.id = text_at(item, "id"),
                                       .text = std::move(text),
                                       .is_error = status == "failed" || status == "declined"});
  }

  // A thread that is taken up again tells of its last turn first.
  void take_usage(const Json& params, Output& out) const {
    if (text_at(params, "turnId") != turn_) return;
    const Json& last = member(member(params, "tokenUsage"), "last");
    const std::int64_t cached = number_at(last, "cachedInputTokens");
    const std::int64_t written = number_at(last, "cacheWriteInputTokens");
    out.events.emplace_back(Usage{.input = number_at(last, "inputTokens") - cached - written,
                                  .cache_read = cached,
                                  .cache_write = written,
                                  .output = number_at(last, "outputTokens")});
  }

  void take_error(const Json& params, Output& out) {
    const Json& error = member(params, "error");
    is_told_ = !flag_at(params, "willRetry");
    out.events.emplace_back(Failure{.fault = fault_of_error(error),
                                    .message = text_at(error, "message"),
                                    .retries = flag_at(params, "willRetry")});
  }

  void take_end(const Json& turn, Output& out) {
    const std::string status = text_at(turn, "status");
    turn_.clear();
    if (status == "failed" && !is_told_) {
      const Json& error = member(turn, "error");
      out.events.emplace_back(
          Failure{.fault = fault_of_error(error), .message = text_at(error, "message")});
    }
    is_told_ = false;
    out.events.emplace_back(Idle{status == "completed"     ? Ending::kDone
                                 : status == "interrupted" ? Ending::kInterrupted
                                                           : Ending::kFailed});
  }

  const Wish wish_;
  RpcPeer<Asked> rpc_{RpcPeer<Asked>::Version::kLeftOut};
  std::string thread_;
  std::string turn_;
  bool wants_interrupt_ = false;
  bool is_told_ = false;  // of what will end the turn
};

}  // namespace

std::unique_ptr<Adapter> create_codex(Wish wish) {
  return std::make_unique<Codex>(std::move(wish));
}

}  // namespace pons::harness
