#include "scripted_model.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/linux/tcp.h"
#include "pons/models/protocol.h"

namespace pons::trial {

namespace {

constexpr std::size_t kBodyBytesMax = 32 << 20;
constexpr Duration kSilence = std::chrono::minutes(5);

std::string text_of(const std::vector<models::Part>& parts) {
  std::string text;
  for (const models::Part& part : parts) {
    if (const auto* said = std::get_if<models::TextPart>(&part.content)) text += said->text + "\n";
    if (const auto* call = std::get_if<models::ToolCallPart>(&part.content))
      text += call->input + "\n";
    if (const auto* result = std::get_if<models::ToolResultPart>(&part.content))
      text += text_of(result->content) + "\n";
  }
  return text;
}

// What is told with an answer: other figures for each, so that none can be taken for another.
models::Usage usage_of(std::size_t number) {
  const auto n = static_cast<std::int64_t>(number);
  return {.input = 1'000 + 7 * n, .cache_read = 20 + n, .output = 50 + 3 * n};
}

http::Response refusal_of(int status) {
  const char* kind = status == 401   ? "authentication_error"
                     : status == 429 ? "rate_limit_error"
                                     : "server_error";
  return {.status = status,
          .body = dump_json({{"error",
                              {{"message", fmt::format("the script refuses with {}", status)},
                               {"type", kind},
                               {"code", nullptr},
                               {"param", nullptr}}}}),
          .fields = {}};
}

std::vector<std::string> in_pieces(std::string_view text, std::size_t pieces) {
  std::vector<std::string> all;
  const std::size_t each = std::max<std::size_t>(1, text.size() / std::max<std::size_t>(1, pieces));
  for (std::size_t at = 0; at < text.size(); at += each) all.emplace_back(text.substr(at, each));
  return all;
}

}  // namespace

Asked::Asked(models::Request asked) : request(std::move(asked)) {
  for (const models::Message& message : request.messages) whole += text_of(message.parts);
  const std::size_t begin = whole.rfind("[[");
  const std::size_t end = begin == whole.npos ? begin : whole.find("]]", begin);
  if (end == whole.npos) return;
  step = whole.substr(begin + 2, end - begin - 2);
  since = whole.substr(end + 2);
}

std::vector<std::string> Asked::tool_names() const {
  std::vector<std::string> names;
  for (const models::Tool& tool : request.tools) names.push_back(tool.name);
  return names;
}

std::string Asked::find_tool(std::string_view name) const {
  for (const models::Tool& tool : request.tools)
    if (tool.name.ends_with(name)) return tool.name;
  return {};
}

const models::Tool* Asked::find_shell() const {
  constexpr std::array<std::string_view, 6> kNames = {"bash",  "Bash",     "exec_command",
                                                      "shell", "terminal", "run_shell_command"};
  for (const models::Tool& tool : request.tools)
    if (std::ranges::find(kNames, tool.name) != kNames.end()) return &tool;
  return nullptr;
}

Reply say(std::string text) {
  return {.text = std::move(text)};
}

Reply run_command(const Asked& asked, const std::string& command) {
  const auto call = [&](std::string name, const Json& input) {
    return Reply{.calls = {{.id = fmt::format("call_{}_{}", asked.request.model, asked.number),
                            .name = std::move(name),
                            .input = dump_json(input)}}};
  };
  if (const std::string execute = asked.find_tool("sandbox_execute"); !execute.empty()) {
    if (!asked.whole.contains("sandbox_id"))
      return call(asked.find_tool("sandbox_provision"),
                  {{"task_description", "what is to be done"}, {"keep", true}});
    return call(execute, {{"command", command}});
  }
  const models::Tool* shell = asked.find_shell();
  if (shell == nullptr) return say("There is nothing to run a command with.");
  Json input = Json::object();
  input[shell->schema.contains("\"cmd\"") ? "cmd" : "command"] = command;
  if (shell->schema.contains("\"description\"")) input["description"] = "as told";
  return call(shell->name, input);
}

// ---- over HTTP

ScriptedModel::ScriptedModel(linux::Loop& loop)
    : loop_(loop), server_(loop, {.body_bytes = kBodyBytesMax}, [this](http::Exchange& exchange) {
        return serve(exchange);
      }) {}

Result<std::unique_ptr<ScriptedModel>> ScriptedModel::open(linux::Loop& loop) {
  std::unique_ptr<ScriptedModel> model(new ScriptedModel(loop));
  auto listener = TRY(linux::listen_tcp("127.0.0.1", 0));
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return os_error("open model", "getsockname");
  model->port_ = ntohs(address.sin_port);
  TRY_VOID(model->server_.listen(std::move(listener), "model"));
  return model;
}

Task<> ScriptedModel::serve(http::Exchange& exchange) {
  const auto body = co_await exchange.read_whole_body(kBodyBytesMax);
  if (!body) co_return;
  auto request = models::chat_protocol().read_request(*body);
  if (!request) {
    records_[""].unreadable.push_back(request.error().describe());
    co_return exchange.respond(refusal_of(400));
  }
  Record& record = records_[request->model];
  Asked asked(std::move(*request));
  asked.number = record.calls++;
  if (!asked.is_aside()) {
    const auto names = asked.tool_names();
    record.offered.emplace_back(names.begin(), names.end());
  }
  const auto script = scripts_.find(asked.request.model);
  if (script == scripts_.end()) co_return exchange.respond(refusal_of(404));
  const Reply reply = asked.is_aside() ? say("A title") : script->second(asked);
  co_await answer(exchange, asked.request, reply, record);
}

Task<> ScriptedModel::answer(http::Exchange& exchange, const models::Request& request,
                             const Reply& reply, Record& record) {
  if (reply.refusal != 0) co_return exchange.respond(refusal_of(reply.refusal));
  if (reply.is_silent) {
    if (co_await exchange.wait_for_hang_up(loop_.now() + kSilence)) ++record.hang_ups;
    co_return;
  }
  if (reply.is_garbled)
    co_return exchange.respond({.content_type = "text/event-stream",
                                .body = "data: {\"id\":\"c1\",\"choices\":[{\"del\n\ndata: ]\n\n",
                                .fields = {}});
  models::Answer whole{.id = fmt::format("answer_{}", record.calls),
                       .model = request.model,
                       .parts = {},
                       .stop = reply.calls.empty() ? models::Stop::kEnd : models::Stop::kToolUse,
                       .usage = usage_of(record.calls)};
  whole.usage.input += reply.dear;
  if (!reply.text.empty()) whole.parts.push_back({.content = models::TextPart{.text = reply.text}});
  for (const models::ToolCallPart& call : reply.calls) whole.parts.push_back({.content = call});
  if (request.stream) co_return co_await stream(exchange, request, whole, reply, record);
  record.usage.input += whole.usage.input;
  record.usage.cache_read += whole.usage.cache_read;
  record.usage.output += whole.usage.output;
  exchange.respond({.body = models::chat_protocol().write_answer(whole, request), .fields = {}});
}

Task<> ScriptedModel::stream(http::Exchange& exchange, const models::Request& request,
                             const models::Answer& answer, const Reply& reply, Record& record) {
  const auto writer = models::chat_protocol().stream_writer(request);
  if (!co_await exchange.start({.content_type = "text/event-stream", .fields = {}})) co_return;
  bool is_first = true;
  for (const models::AnswerEvent& event : models::events_of(answer)) {
    std::vector<std::string> pieces;
    if (const auto* grows = std::get_if<models::PartGrows>(&event))
      pieces = in_pieces(grows->text, reply.pieces);
    if (pieces.empty()) pieces.emplace_back();  // an event of another kind, as it is
    for (const std::string& piece : pieces) {
      const bool grows = std::holds_alternative<models::PartGrows>(event);
      if (grows && !std::exchange(is_first, false) && reply.pause > Duration::zero() &&
          co_await exchange.wait_for_hang_up(loop_.now() + reply.pause)) {
        ++record.hang_ups;
        co_return;
      }
      std::string out;
      writer->take(grows ? models::AnswerEvent(models::PartGrows{.text = piece}) : event, out);
      if (!out.empty() && !co_await exchange.write(out)) {
        ++record.hang_ups;
        co_return;
      }
      if (grows) ++record.pieces;
    }
  }
  record.usage.input += answer.usage.input;
  record.usage.cache_read += answer.usage.cache_read;
  record.usage.output += answer.usage.output;
  (void)co_await exchange.finish();
}

}  // namespace pons::trial
