#include <optional>
#include <set>

#include "adapters.h"
#include "fields.h"
#include "rpc.h"

// The Agent Client Protocol, version 1, without files and terminals of ours: OpenCode, and whatever
// else speaks it.

namespace pons::harness {

namespace {

enum class Asked : std::uint8_t { kInitialise, kSession, kPrompt };

class Acp final : public Adapter {
 public:
  explicit Acp(Wish wish) : wish_(std::move(wish)) {}

  Capabilities capabilities() const override {
    return {.deltas = true,
            .thinking = true,
            .permissions = true,
            .tool_requests = false,
            .usage = true,
            .resume = can_resume_ || can_load_};
  }

  void greet(Output& out) override {
    rpc_.ask(Asked::kInitialise, "initialize",
             {{"protocolVersion", 1},
              {"clientCapabilities",
               {{"fs", {{"readTextFile", false}, {"writeTextFile", false}}}, {"terminal", false}}}},
             out);
  }

  void send(std::string_view text, Output& out) override {
    said_.clear();
    rpc_.ask(Asked::kPrompt, "session/prompt",
             {{"sessionId", session_},
              {"prompt", Json::array({{{"type", "text"}, {"text", std::string(text)}}})}},
             out);
  }

  void interrupt(Output& out) override {
    rpc_.tell("session/cancel", {{"sessionId", session_}}, out);
    // An agent that waits for an answer does not hear of it otherwise.
    for (const auto& [id, options] : std::exchange(options_, {}))
      rpc_.reply(id, {{"outcome", {{"outcome", "cancelled"}}}}, out);
  }

  void decide(const std::string& id, const Decision& decision, Output& out) override {
    const auto found = options_.find(id);
    if (found == options_.end()) return;
    const std::string option = decision.allowed ? found->second.allow : found->second.reject;
    options_.erase(found);
    if (option.empty())
      rpc_.reply(id, {{"outcome", {{"outcome", "cancelled"}}}}, out);
    else
      rpc_.reply(id, {{"outcome", {{"outcome", "selected"}, {"optionId", option}}}}, out);
  }

  void answer(const std::string&, const ToolAnswer&, Output&) override {}

  Result<void> take(std::string_view line, Output& out) override {
    const Json message = TRY(read_line(line));
    const std::string method = text_at(message, "method");
    const Json& params = member(message, "params");
    if (method.empty())
      take_answer(message, out);
    else if (method == "session/update")
      take_update(member(params, "update"), out);
    else if (const std::string id = request_id(message); !id.empty())
      take_request(id, method, message, out);
    return {};
  }

 private:
  struct Options {
    std::string allow;  // once
    std::string reject;
  };

  void take_answer(const Json& message, Output& out) {
    const auto asked = rpc_.take_answer(message);
    if (!asked) return;
    const Json& result = member(message, "result");
    if (message.contains("error")) return fail(error_text(message), out);
    switch (*asked) {
      case Asked::kInitialise:
        open_session(member(result, "agentCapabilities"), out);
        break;
      case Asked::kSession:
        is_replaying_ = false;
        session_ = wish_.session.empty() ? text_at(result, "sessionId") : wish_.session;
        out.events.emplace_back(Ready{session_});
        break;
      case Asked::kPrompt:
        end(result, out);
        break;
    }
  }

  // Nothing will change that.
  static void refuse(const char* why, Output& out) {
    out.events.emplace_back(Failure{.fault = Fault::kOther, .message = why});
    out.events.emplace_back(Idle{Ending::kFailed});
  }

  void fail(const std::string& message, Output& out) {
    flush(out);
    out.events.emplace_back(Failure{.fault = fault_of(message), .message = message});
    out.events.emplace_back(Idle{Ending::kFailed});
  }

  void open_session(const Json& capabilities, Output& out) {
    can_load_ = flag_at(capabilities, "loadSession");
    can_resume_ = !member(member(capabilities, "sessionCapabilities"), "resume").is_null();
    const Json& transports = member(capabilities, "mcpCapabilities");
    if (!wish_.servers.empty() && transports.is_object() && !flag_at(transports, "http"))
      return refuse("it takes no tools by HTTP, and there are no others for it", out);
    if (!wish_.session.empty() && !can_load_ && !can_resume_)
      return refuse("it cannot go on with a conversation", out);
    Json servers = Json::array();
    for (const HttpServer& server : wish_.servers) {
      Json headers = Json::array();
      if (!server.bearer.empty())
        headers.push_back({{"name", "Authorization"}, {"value", "Bearer " + server.bearer}});
      servers.push_back({{"type", "http"},
                         {"name", server.name},
                         {"url", server.url},
                         {"headers", std::move(headers)}});
    }
    Json params = {{"cwd", wish_.directory}, {"mcpServers", std::move(servers)}};
    if (wish_.session.empty())
      return rpc_.ask(Asked::kSession, "session/new", std::move(params), out);
    params["sessionId"] = wish_.session;
    // Loading tells all of the conversation again; resuming does not.
    is_replaying_ = true;
    rpc_.ask(Asked::kSession, can_resume_ ? "session/resume" : "session/load", std::move(params),
             out);
  }

  void take_update(const Json& update, Output& out) {
    if (is_replaying_) return;
    const std::string kind = text_at(update, "sessionUpdate");
    if (kind == "agent_message_chunk") {
      std::string text = text_at(member(update, "content"), "text");
      if (said_.size() + text.size() <= kSaidBytesMax) said_ += text;
      out.events.emplace_back(TextDelta{std::move(text)});
    } else if (kind == "agent_thought_chunk") {
      out.events.emplace_back(ThinkingDelta{text_at(member(update, "content"), "text")});
    } else if (kind == "tool_call" || kind == "tool_call_update") {
      take_tool(update, out);
    }
  }

  // Some agents announce a call ahead of its arguments, some never announce it.
  void take_tool(const Json& update, Output& out) {
    flush(out);
    const std::string id = text_at(update, "toolCallId");
    const std::string status = text_at(update, "status");
    const bool is_over = status == "completed" || status == "failed";
    const Json& input = member(update, "rawInput");
    Pending& call = pending_[id];
    // Later titles are of what it does, not of the tool.
    if (call.name.empty()) call.name = name_of_tool(update);
    if (input.is_object()) call.input = dump_json(input);
    if (!call.is_told && (status == "in_progress" || is_over)) {
      call.is_told = true;
      out.events.emplace_back(
          ToolCall{.id = id, .name = call.name, .input = call.input.empty() ? "{}" : call.input});
    }
    if (is_over) {
      out.events.emplace_back(ToolResult{.id = id,
                                         .text = text_of_tool(member(update, "content")),
                                         .is_error = status == "failed"});
      pending_.erase(id);
    }
    if (pending_.size() > kPendingMax) pending_.clear();
  }

  // A title is for people: what says more is looked at first. Both are customs, not the protocol.
  static std::string name_of_tool(const Json& call) {
    const Json& more = member(call, "_meta");
    for (const Json* place : {&more, &member(more, "claudeCode")})
      if (std::string name = text_at(*place, "toolName"); !name.empty()) return name;
    const Json& input = member(call, "rawInput");
    const std::string server = text_at(input, "server");
    const std::string tool = text_at(input, "tool");
    if (!server.empty() && !tool.empty()) return server + "/" + tool;
    return text_at(call, "title");
  }

  static std::string text_of_tool(const Json& content) {
    std::string text;
    if (!content.is_array()) return text;
    for (const Json& part : content) {
      const std::string piece = text_at(member(part, "content"), "text");
      if (piece.empty()) continue;
      if (!text.empty()) text += '\n';
      text += piece;
    }
    return text;
  }

  void take_request(const std::string& id, const std::string& method, const Json& message,
                    Output& out) {
    if (method != "session/request_permission")
      return rpc_.refuse(member(message, "id"), method, out);
    const Json& params = member(message, "params");
    Options options;
    for (const Json& option : member(params, "options")) {
      const std::string kind = text_at(option, "kind");
      if (kind == "allow_once") options.allow = text_at(option, "optionId");
      if (kind == "reject_once") options.reject = text_at(option, "optionId");
    }
    if (options_.size() < kPendingMax) options_[id] = std::move(options);
    const Json& call = member(params, "toolCall");
    out.events.emplace_back(PermissionRequest{
        .id = id, .tool = name_of_tool(call), .input = object_text(member(call, "rawInput"))});
  }

  // What was said in pieces, as a whole.
  void flush(Output& out) {
    if (!said_.empty()) out.events.emplace_back(Text{std::exchange(said_, {})});
  }

  void end(const Json& result, Output& out) {
    flush(out);
    pending_.clear();
    options_.clear();
    const Json& usage = member(result, "usage");
    if (usage.is_object())
      out.events.emplace_back(Usage{.input = number_at(usage, "inputTokens"),
                                    .cache_read = number_at(usage, "cachedReadTokens"),
                                    .cache_write = number_at(usage, "cachedWriteTokens"),
                                    .output = number_at(usage, "outputTokens")});
    const std::string reason = text_at(result, "stopReason");
    if (reason == "cancelled") {
      out.events.emplace_back(Idle{Ending::kInterrupted});
      return;
    }
    if (reason != "end_turn")
      out.events.emplace_back(Failure{.fault = Fault::kOther, .message = "it ended by " + reason});
    out.events.emplace_back(Idle{reason == "end_turn" ? Ending::kDone : Ending::kFailed});
  }

  struct Pending {
    std::string name;
    std::string input;
    bool is_told = false;
  };
  static constexpr std::size_t kPendingMax = 256;
  static constexpr std::size_t kSaidBytesMax = 4 << 20;

  const Wish wish_;
  RpcPeer<Asked> rpc_{RpcPeer<Asked>::Version::kSaid};
  std::string session_;
  std::string said_;  // since the last whole
  std::map<std::string, Pending> pending_;
  std::map<std::string, Options> options_;  // of questions, by their ids
  bool is_replaying_ = false;
  // As it says when it is greeted.
  bool can_load_ = false;
  bool can_resume_ = false;
};

}  // namespace

std::unique_ptr<Adapter> create_acp(Wish wish) {
  return std::make_unique<Acp>(std::move(wish));
}

}  // namespace pons::harness
