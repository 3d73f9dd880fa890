#include "adapters.h"
#include "fields.h"

// `pi --mode rpc`: commands and events as lines. It has no questions, and no tools of ours but by
// an extension in its own process.

namespace pons::harness {

namespace {

class Pi final : public Adapter {
 public:
  explicit Pi(Wish wish) : wish_(std::move(wish)) {}

  Capabilities capabilities() const override {
    return {.deltas = true,
            .thinking = true,
            .permissions = false,
            .tool_requests = false,
            .usage = true,
            .resume = true};
  }

  void greet(Output& out) override {
    out.lines.push_back(dump_json({{"id", "state"}, {"type", "get_state"}}));
  }
  void send(std::string_view text, Output& out) override {
    stop_.clear();
    out.lines.push_back(
        dump_json({{"id", "prompt"}, {"type", "prompt"}, {"message", std::string(text)}}));
  }
  void interrupt(Output& out) override { out.lines.push_back(dump_json({{"type", "abort"}})); }
  void decide(const std::string&, const Decision&, Output&) override {}
  void answer(const std::string&, const ToolAnswer&, Output&) override {}

  Result<void> take(std::string_view line, Output& out) override {
    const Json message = TRY(read_line(line));
    const std::string type = text_at(message, "type");
    if (type.empty()) return make_error(ErrorCode::kInvalid, "read harness", "no type");
    if (type == "response")
      take_response(message, out);
    else if (type == "message_update")
      take_piece(member(message, "assistantMessageEvent"), out);
    else if (type == "message_end")
      take_message(member(message, "message"), out);
    else if (type == "tool_execution_start")
      out.events.emplace_back(ToolCall{.id = text_at(message, "toolCallId"),
                                       .name = text_at(message, "toolName"),
                                       .input = object_text(member(message, "args"))});
    else if (type == "tool_execution_end")
      out.events.emplace_back(
          ToolResult{.id = text_at(message, "toolCallId"),
                     .text = content_text(member(member(message, "result"), "content")),
                     .is_error = flag_at(message, "isError")});
    else if (type == "auto_retry_start")
      retry(message, out);
    else if (type == "agent_end" && !flag_at(message, "willRetry"))
      end(out);
    return {};
  }

 private:
  void take_response(const Json& message, Output& out) {
    const std::string command = text_at(message, "command");
    if (command == "get_state") {
      const std::string session = text_at(member(message, "data"), "sessionId");
      out.events.emplace_back(Ready{session.empty() ? wish_.session : session});
    } else if (command == "prompt" && !flag_at(message, "success")) {
      out.events.emplace_back(
          Failure{.fault = Fault::kHarness, .message = text_at(message, "error")});
      out.events.emplace_back(Idle{Ending::kFailed});
    }
  }

  static void take_piece(const Json& event, Output& out) {
    const std::string type = text_at(event, "type");
    if (type == "text_delta") out.events.emplace_back(TextDelta{text_at(event, "delta")});
    if (type == "thinking_delta") out.events.emplace_back(ThinkingDelta{text_at(event, "delta")});
  }

  void take_message(const Json& message, Output& out) {
    if (text_at(message, "role") != "assistant") return;
    for (const Json& block : member(message, "content"))
      if (text_at(block, "type") == "text") out.events.emplace_back(Text{text_at(block, "text")});
    const Json& usage = member(message, "usage");
    out.events.emplace_back(Usage{.input = number_at(usage, "input"),
                                  .cache_read = number_at(usage, "cacheRead"),
                                  .cache_write = number_at(usage, "cacheWrite"),
                                  .output = number_at(usage, "output")});
    stop_ = text_at(message, "stopReason");
    error_ = text_at(message, "errorMessage");
  }

  static void retry(const Json& message, Output& out) {
    const std::string error = text_at(message, "errorMessage");
    out.events.emplace_back(Failure{.fault = fault_of(error), .message = error, .retries = true});
  }

  void end(Output& out) {
    if (stop_ == "error")
      out.events.emplace_back(Failure{.fault = fault_of(error_), .message = error_});
    out.events.emplace_back(Idle{stop_ == "aborted" ? Ending::kInterrupted
                                 : stop_ == "error" ? Ending::kFailed
                                                    : Ending::kDone});
  }

  const Wish wish_;
  std::string stop_;   // why the last answer ended
  std::string error_;  // what it said of it
};

}  // namespace

std::unique_ptr<Adapter> create_pi(Wish wish) {
  return std::make_unique<Pi>(std::move(wish));
}

}  // namespace pons::harness
