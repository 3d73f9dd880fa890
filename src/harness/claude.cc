#include "adapters.h"
#include "fields.h"
#include "pons/harness/conversation.h"

// Claude Code's stream-json, which qwen-code speaks too: `claude -p --input-format stream-json
// --output-format stream-json --include-partial-messages --permission-prompt-tool stdio`.

namespace pons::harness {

namespace {

constexpr const char* kInitialise = "pons-initialise";
constexpr const char* kInterrupt = "pons-interrupt";

class Claude final : public Adapter {
 public:
  explicit Claude(Wish wish) : wish_(std::move(wish)) {}

  Capabilities capabilities() const override {
    return {.deltas = true,
            .thinking = true,
            .permissions = true,
            .tool_requests = false,
            .usage = true,
            .resume = true};
  }

  void greet(Output& out) override { request(kInitialise, {{"subtype", "initialize"}}, out); }

  void send(std::string_view text, Output& out) override {
    inputs_.clear();
    out.lines.push_back(dump_json(
        {{"type", "user"}, {"message", {{"role", "user"}, {"content", std::string(text)}}}}));
  }

  void interrupt(Output& out) override { request(kInterrupt, {{"subtype", "interrupt"}}, out); }

  void decide(const std::string& id, const Decision& decision, Output& out) override {
    const auto input = inputs_.find(id);
    if (input == inputs_.end()) return;
    Json response = {{"behavior", decision.allowed ? "allow" : "deny"}};
    if (decision.allowed)
      response["updatedInput"] = std::move(input->second);
    else
      response["message"] = decision.message;
    inputs_.erase(input);
    out.lines.push_back(dump_json(
        {{"type", "control_response"},
         {"response", {{"subtype", "success"}, {"request_id", id}, {"response", response}}}}));
  }

  void answer(const std::string&, const ToolAnswer&, Output&) override {}

  Result<void> take(std::string_view line, Output& out) override {
    const Json message = TRY(read_line(line));
    const std::string type = text_at(message, "type");
    if (type.empty()) return make_error(ErrorCode::kInvalid, "read harness", "no type");
    // What an agent of the agent does is its own.
    const bool is_of_child = member(message, "parent_tool_use_id").is_string();
    if (type == "control_response")
      take_response(member(message, "response"), out);
    else if (type == "control_request")
      take_request(message, out);
    else if (type == "system")
      take_system(message, out);
    else if (type == "stream_event" && !is_of_child)
      take_piece(member(message, "event"), out);
    else if (type == "assistant" && !is_of_child)
      take_answer(member(message, "message"), out);
    else if (type == "user" && !is_of_child)
      take_results(member(message, "message"), out);
    else if (type == "result")
      take_end(message, out);
    return {};
  }

 private:
  static void request(const char* id, Json body, Output& out) {
    out.lines.push_back(
        dump_json({{"type", "control_request"}, {"request_id", id}, {"request", std::move(body)}}));
  }

  void take_response(const Json& response, Output& out) {
    if (text_at(response, "request_id") != kInitialise) return;
    // The name of the conversation was given at the start.
    if (text_at(response, "subtype") == "success") {
      out.events.emplace_back(Ready{wish_.session});
      return;
    }
    out.events.emplace_back(
        Failure{.fault = Fault::kHarness, .message = text_at(response, "error")});
    out.events.emplace_back(Idle{Ending::kFailed});
  }

  void take_request(const Json& message, Output& out) {
    const Json& body = member(message, "request");
    const std::string id = text_at(message, "request_id");
    if (text_at(body, "subtype") != "can_use_tool") {
      out.lines.push_back(dump_json(
          {{"type", "control_response"},
           {"response",
            {{"subtype", "error"}, {"request_id", id}, {"error", "there is no such request"}}}}));
      return;
    }
    const Json& input = member(body, "input");
    if (inputs_.size() < kInputsMax) inputs_[id] = input.is_object() ? input : Json::object();
    out.events.emplace_back(PermissionRequest{
        .id = id, .tool = text_at(body, "tool_name"), .input = object_text(input)});
  }

  static void take_system(const Json& message, Output& out) {
    const std::string subtype = text_at(message, "subtype");
    if (subtype == "init") {
      ToolsOffered offered;
      for (const Json& name : member(message, "tools"))
        if (name.is_string()) offered.names.push_back(name.get<std::string>());
      out.events.emplace_back(std::move(offered));
    } else if (subtype == "api_retry") {
      const std::int64_t status = number_at(message, "error_status");
      const std::string error = text_at(message, "error");
      out.events.emplace_back(Failure{.fault = fault_of(status, error),
                                      .message = error.empty() ? "the model did not answer" : error,
                                      .retries = true});
    }
  }

  static void take_piece(const Json& event, Output& out) {
    if (text_at(event, "type") != "content_block_delta") return;
    const Json& delta = member(event, "delta");
    const std::string kind = text_at(delta, "type");
    if (kind == "text_delta") out.events.emplace_back(TextDelta{text_at(delta, "text")});
    if (kind == "thinking_delta")
      out.events.emplace_back(ThinkingDelta{text_at(delta, "thinking")});
  }

  static void take_answer(const Json& message, Output& out) {
    const Json& content = member(message, "content");
    if (!content.is_array()) return;
    for (const Json& block : content) {
      const std::string type = text_at(block, "type");
      if (type == "text") out.events.emplace_back(Text{text_at(block, "text")});
      if (type == "tool_use")
        out.events.emplace_back(ToolCall{.id = text_at(block, "id"),
                                         .name = text_at(block, "name"),
                                         .input = object_text(member(block, "input"))});
    }
  }

  static void take_results(const Json& message, Output& out) {
    const Json& content = member(message, "content");
    if (!content.is_array()) return;
    for (const Json& block : content)
      if (text_at(block, "type") == "tool_result")
        out.events.emplace_back(ToolResult{.id = text_at(block, "tool_use_id"),
                                           .text = content_text(member(block, "content")),
                                           .is_error = flag_at(block, "is_error")});
  }

  static void take_end(const Json& message, Output& out) {
    const Json& usage = member(message, "usage");
    out.events.emplace_back(Usage{.input = number_at(usage, "input_tokens"),
                                  .cache_read = number_at(usage, "cache_read_input_tokens"),
                                  .cache_write = number_at(usage, "cache_creation_input_tokens"),
                                  .output = number_at(usage, "output_tokens")});
    if (text_at(message, "terminal_reason").starts_with("aborted")) {
      out.events.emplace_back(Idle{Ending::kInterrupted});
      return;
    }
    if (!flag_at(message, "is_error") && text_at(message, "subtype") == "success") {
      out.events.emplace_back(Idle{Ending::kDone});
      return;
    }
    const std::string said = text_at(message, "result");
    const std::int64_t status = number_at(message, "api_error_status");
    out.events.emplace_back(Failure{.fault = fault_of(status, said),
                                    .message = said.empty() ? text_at(message, "subtype") : said});
    out.events.emplace_back(Idle{Ending::kFailed});
  }

  static constexpr std::size_t kInputsMax = Conversation::kOpenMax;

  const Wish wish_;
  std::map<std::string, Json> inputs_;  // of what it asks to be allowed
};

}  // namespace

std::unique_ptr<Adapter> create_claude(Wish wish) {
  return std::make_unique<Claude>(std::move(wish));
}

}  // namespace pons::harness
