#include "pons/mcp/client.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/base/version.h"
#include "pons/http/event_stream.h"
#include "pons/http/head.h"
#include "pons/mcp/protocol.h"

namespace pons::mcp {

namespace {

constexpr std::size_t kSessionBytesMax = 1'024;
constexpr std::size_t kCursorBytesMax = 4'096;
constexpr std::size_t kWordsBytesMax = 1'000;  // of a server's refusal

Error wrong(const char* step, std::string message) {
  return make_error(ErrorCode::kInvalid, step, std::move(message));
}

// Of what a server says of itself, for a person or a model.
std::string shown(std::string_view text) {
  std::string words(text.substr(0, kWordsBytesMax));
  for (char& c : words)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) c = ' ';
  return words;
}

Error error_of(int status) {
  if (status == 401 || status == 403)
    return make_error(ErrorCode::kDenied, "ask MCP server",
                      fmt::format("the server wants other credentials ({})", status));
  if (status == 429 || status >= 500)
    return make_error(ErrorCode::kUnavailable, "ask MCP server",
                      fmt::format("the server answered {}", status));
  return wrong("ask MCP server", fmt::format("the server answered {}", status));
}

// Before a tool was called: whatever went wrong, it has done nothing.
Error not_called(Error error) {
  if (error.code != ErrorCode::kDenied) error.code = ErrorCode::kInvalid;
  return error;
}

// The texts of a result, and a word for each part that is none.
Result<RemoteResult> read_result(const std::string& text) {
  const Json json = parse_json(text).value_or(Json());
  if (!json.is_object() || !json.contains("content") || !json.at("content").is_array())
    return make_error(ErrorCode::kIo, "read result", "the server's result has no content");
  RemoteResult result;
  if (json.contains("isError") && json.at("isError").is_boolean())
    result.is_error = json.at("isError").get<bool>();
  for (const Json& part : json.at("content")) {
    if (!result.text.empty()) result.text += '\n';
    if (part.is_object() && part.contains("text") && part.at("text").is_string())
      result.text += part.at("text").get_ref<const std::string&>();
    else if (part.is_object() && part.contains("type") && part.at("type").is_string())
      result.text += fmt::format("[{}, left out]", shown(part.at("type").get<std::string>()));
  }
  return result;
}

}  // namespace

ServerRequest Client::request_of(std::string method, std::string body) const {
  ServerRequest request{.method = std::move(method), .body = std::move(body)};
  request.fields = {{"accept", "application/json, text/event-stream"}};
  if (!request.body.empty()) request.fields.emplace_back("content-type", "application/json");
  if (!session_.empty()) request.fields.emplace_back(kSessionField, session_);
  if (!version_.empty()) request.fields.emplace_back(kVersionField, version_);
  return request;
}

Task<Result<void>> Client::begin() {
  session_.clear();
  version_.clear();
  list_.reset();
  is_open_ = false;
  const Json hello = {{"protocolVersion", kVersions.front()},
                      {"capabilities", Json::object()},
                      {"clientInfo", {{"name", "pons"}, {"version", pons::version()}}}};
  const Request request{
      .id = std::to_string(++last_id_), .method = "initialize", .params = dump_json(hello)};
  CO_TRY(const auto result, co_await ask_once(request, loop_.now() + limits_.question_time));
  CO_TRY(const auto json, parse_json(result));
  if (!json.is_object() || !json.contains("protocolVersion") ||
      !json.at("protocolVersion").is_string() ||
      !is_known_version(json.at("protocolVersion").get_ref<const std::string&>()))
    co_return wrong("greet MCP server", "the server speaks no version that is known here");
  version_ = json.at("protocolVersion").get<std::string>();
  is_open_ = true;
  co_return co_await tell({.method = "notifications/initialized"});
}

Task<Result<void>> Client::tell(Notification notification) {
  CO_TRY(const auto answer, co_await sender_.send(request_of("POST", write_message(notification)),
                                                  loop_.now() + limits_.question_time));
  if (answer->status() >= 300) co_return error_of(answer->status());
  co_return {};
}

Task<Result<std::string>> Client::ask(std::string method, std::string params) {
  for (bool is_again = false;; is_again = true) {
    if (!is_open_) CO_TRY_VOID(co_await begin());
    const Request request{.id = std::to_string(++last_id_), .method = method, .params = params};
    auto result = co_await ask_once(request, loop_.now() + limits_.question_time);
    const bool is_forgotten = !result && result.error().code == ErrorCode::kNotFound;
    if (!is_forgotten || is_again) co_return result;
    is_open_ = false;
  }
}

// kNotFound: the server does not know the session.
Task<Result<std::string>> Client::ask_once(const Request& request, TimePoint deadline) {
  last_status_ = 0;
  CO_TRY(const auto answer,
         co_await sender_.send(request_of("POST", write_message(request)), deadline));
  last_status_ = answer->status();
  if (answer->status() == 404 && !session_.empty())
    co_return make_error(ErrorCode::kNotFound, "ask MCP server", "the session is over");
  if (answer->status() != 200) co_return error_of(answer->status());
  if (request.method == "initialize") {
    const auto session = answer->find(kSessionField).value_or("");
    if (session.size() > kSessionBytesMax || !http::is_field_value(session))
      co_return wrong("greet MCP server", "the server's session has a name that cannot be used");
    session_ = std::string(session);
  }
  auto reply = co_await read_reply(*answer, request.id, deadline);
  if (!reply) {
    // Whatever it said instead, a tool that was called may have done something.
    Error error = reply.error();
    if (request.method == "tools/call" && error.code != ErrorCode::kTimeout)
      error.code = ErrorCode::kIo;
    co_return error;
  }
  if (const auto* error = std::get_if<RpcError>(&reply->outcome))
    co_return wrong("ask MCP server", fmt::format("the server refused: {}", shown(error->message)));
  co_return std::move(std::get<std::string>(reply->outcome));
}

// As JSON, or behind whatever else the server has to say first.
Task<Result<Reply>> Client::read_reply(ServerAnswer& answer, const std::string& id,
                                       TimePoint deadline) {
  const bool is_events = answer.find("content-type").value_or("").starts_with("text/event-stream");
  const auto length = parse_decimal(answer.find("content-length").value_or("0"));
  const auto too_long = [this] {
    return make_error(
        ErrorCode::kLimit, "read answer",
        fmt::format("the server's answer is longer than {}", human_bytes(limits_.answer_bytes)));
  };
  if (!length || *length > limits_.answer_bytes) co_return too_long();
  http::EventStreamParser parser(limits_.answer_bytes);
  std::optional<Reply> found;
  const auto take = [&](std::string_view text) {
    auto message = read_message(text, limits_.answer_bytes);
    if (!message) return;
    auto* reply = std::get_if<Reply>(&*message);
    if (reply != nullptr && reply->id == id && !found)
      found = std::move(*reply);
    else
      hear(*message);
  };
  std::string body;
  std::size_t bytes = 0;
  while (!found) {
    CO_TRY(const auto piece, co_await answer.read(deadline));
    if (piece.empty()) break;
    bytes += piece.size();
    if (bytes > limits_.answer_bytes) co_return too_long();
    if (is_events) {
      CO_TRY_VOID(parser.feed(piece, [&](const http::ServerEvent& event) { take(event.data); }));
    } else {
      body += piece;
    }
  }
  if (!is_events) take(body);
  if (!found) co_return wrong("read answer", "the server's answer holds no reply");
  co_return std::move(*found);
}

void Client::hear(const Message& message) {
  const auto* told = std::get_if<Notification>(&message);
  if (told != nullptr && told->method == "notifications/tools/list_changed") list_.reset();
}

Task<Result<ToolList>> Client::list_tools() {
  ToolList list;
  std::string params = "{}";
  for (std::size_t page = 0; page < limits_.pages; ++page) {
    CO_TRY(const auto result, co_await ask("tools/list", params));
    CO_TRY(const auto json, parse_json(result));
    if (!json.is_object() || !json.contains("tools"))
      co_return wrong("list tools", "the server's list has no tools");
    CO_TRY_VOID(add_tools(list, dump_json(json.at("tools"))));
    const auto next = json.find("nextCursor");
    if (next == json.end() || next->is_null()) {
      list_ = list;
      co_return list;
    }
    if (!next->is_string() || next->get_ref<const std::string&>().size() > kCursorBytesMax)
      co_return wrong("list tools", "the server's next page has a name that cannot be used");
    params = dump_json({{"cursor", *next}});
  }
  co_return make_error(ErrorCode::kLimit, "list tools",
                       fmt::format("the server's list has more than {} pages", limits_.pages));
}

Task<Result<void>> Client::check(const std::string& tool, const ToolPins& pins) {
  if (!is_open_ || !list_) CO_TRY_VOID(co_await list_tools());
  const auto known = std::ranges::find(list_->tools, tool, &RemoteTool::name);
  if (known == list_->tools.end())
    co_return wrong("call tool", fmt::format("the server does not offer \"{}\"", shown(tool)));
  if (pins.standing_of(*known) == ToolPins::Standing::kAccepted) co_return {};
  co_return make_error(
      ErrorCode::kDenied, "call tool",
      fmt::format("\"{}\" is not as it was accepted; a person has to look at it first", tool));
}

// A server that was started again may have other tools: they are looked at before it is called.
Task<Result<RemoteResult>> Client::call(std::string tool, std::string arguments,
                                        const ToolPins& pins) {
  const std::string params =
      fmt::format(R"({{"name":{},"arguments":{}}})", dump_json(Json(tool)), arguments);
  for (bool is_again = false;; is_again = true) {
    if (const auto may = co_await check(tool, pins); !may) co_return not_called(may.error());
    const Request request{
        .id = std::to_string(++last_id_), .method = "tools/call", .params = params};
    const auto result = co_await ask_once(request, loop_.now() + limits_.call_time);
    if (result) co_return read_result(*result);
    if (result.error().code != ErrorCode::kNotFound || is_again) co_return result.error();
    is_open_ = false;
  }
}

Task<> Client::close() {
  if (!is_open_ || session_.empty()) co_return;
  is_open_ = false;
  (void)co_await sender_.send(request_of("DELETE", {}), loop_.now() + limits_.question_time);
}

}  // namespace pons::mcp
