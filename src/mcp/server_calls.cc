#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/mcp/server.h"
#include "session_table.h"

// tools/call: the tool runs as a task of its own, and a request waits for it as long as its client
// does.

namespace pons::mcp {

namespace {

struct CallParams {
  std::string name;
  std::string arguments = "{}";
  std::string progress_token;
};

Result<CallParams> read_params(const std::string& text) {
  constexpr std::size_t kTokenBytesMax = 256;
  const Json params = TRY(parse_json(text));
  CallParams read;
  const auto wrong = [](const char* message) {
    return make_error(ErrorCode::kInvalid, "read tools/call", message);
  };
  if (!params.contains("name") || !params.at("name").is_string())
    return wrong("\"name\" must be a text");
  read.name = params.at("name").get<std::string>();
  if (params.contains("arguments")) {
    if (!params.at("arguments").is_object()) return wrong("\"arguments\" must be an object");
    read.arguments = dump_json(params.at("arguments"));
  }
  if (!params.contains("_meta") || !params.at("_meta").is_object()) return read;
  const auto token = params.at("_meta").find("progressToken");
  if (token == params.at("_meta").end()) return read;
  if (!token->is_string() && !token->is_number_integer())
    return wrong("\"progressToken\" must be a text or a whole number");
  read.progress_token = dump_json(*token);
  if (read.progress_token.size() > kTokenBytesMax) return wrong("\"progressToken\" is too long");
  return read;
}

std::string write_progress(const RunningCall& call, TimePoint now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - call.begun).count();
  return write_message(Notification{
      .method = "notifications/progress",
      .params = fmt::format(R"({{"progressToken":{},"progress":{},"message":"running for {} s"}})",
                            call.progress_token, seconds, seconds)});
}

std::string write_reply(const RunningCall& call, Result<ToolResult> result) {
  if (!result) {
    const bool is_unknown = result.error().code == ErrorCode::kNotFound;
    return write_error(call.request, is_unknown ? kInvalidParams : kInternalError,
                       result.error().message);
  }
  const Json json = {
      {"content", Json::array({{{"type", "text"}, {"text", std::move(result->text)}}})},
      {"isError", result->is_error}};
  return write_result(call.request, dump_json(json));
}

bool wants_events(const http::Exchange& exchange) {
  return exchange.request().find("accept").value_or("").find("text/event-stream") !=
         std::string_view::npos;
}

}  // namespace

Task<> Server::call_tool(http::Exchange& exchange, Session session, Request request) {
  const auto refuse = [&](std::int64_t code, std::string message) {
    exchange.respond({.body = write_error(request.id, code, std::move(message)) + "\n"});
  };
  auto params = read_params(request.params);
  if (!params) co_return refuse(kInvalidParams, std::move(params.error().message));
  if (session->calls.contains(request.id))
    co_return refuse(kInvalidRequest, "a request of this id is under way already");
  if (session->calls.size() >= limits_.calls_per_session)
    co_return refuse(kLimitReached, "too many calls of this session are under way; wait for one");
  if (sessions_->calls_of(session->project) >= limits_.calls_per_project)
    co_return refuse(kLimitReached, "too many calls of this project are under way; wait for one");
  const auto call = std::make_shared<RunningCall>(
      loop_, request.id, fmt::format("{}:{}", session->id, ++session->calls_made));
  call->progress_token = std::move(params->progress_token);
  session->calls.emplace(request.id, call);
  calls_.spawn(run(session, call,
                   {.session = session->id,
                    .project = session->project,
                    .id = call->id,
                    .name = std::move(params->name),
                    .arguments = std::move(params->arguments)}));
  if (wants_events(exchange))
    co_await wait_with_events(exchange, call);
  else
    co_await wait_with_json(exchange, call);
}

Task<> Server::run(Session session, std::shared_ptr<RunningCall> call, ToolCall order) {
  struct Ended {
    linux::Loop& loop;
    ServerSession& session;
    RunningCall& call;
    ~Ended() {  // also when the tool throws
      if (call.reply.empty())
        call.reply = write_error(call.request, kInternalError, "the tool failed");
      session.used = loop.now();
      session.calls.erase(call.request);
      call.done.set();
    }
  } const at_end{loop_, *session, *call};
  call->reply = write_reply(*call, co_await toolbox_.call(std::move(order)));
}

// A cancelled request gets no answer, as the protocol wants it; its stream ends.
Task<> Server::wait_with_events(http::Exchange& exchange, std::shared_ptr<RunningCall> call) {
  if (!co_await exchange.start_events()) co_return;
  const bool tells = !call->progress_token.empty();
  const Duration pause = tells ? limits_.progress_time : limits_.keep_alive_time;
  while (co_await call->done.wait(loop_.now() + pause) == linux::Wait::kTimeout) {
    const auto written = tells
                             ? co_await exchange.send_event(
                                   {.event = "message", .data = write_progress(*call, loop_.now())})
                             : co_await exchange.write(http::kEventStreamKeepAlive);
    if (!written) co_return;
  }
  if (!call->is_cancelled &&
      !co_await exchange.send_event({.event = "message", .data = call->reply}))
    co_return;
  (void)co_await exchange.finish();
}

// Space in front of a JSON value means nothing: it keeps those on the way from giving up.
Task<> Server::wait_with_json(http::Exchange& exchange, std::shared_ptr<RunningCall> call) {
  if (!co_await exchange.start({})) co_return;
  while (co_await call->done.wait(loop_.now() + limits_.keep_alive_time) == linux::Wait::kTimeout)
    if (!co_await exchange.write("\n")) co_return;
  const std::string reply =
      call->is_cancelled ? write_error(call->request, kCancelled, "it was cancelled") : call->reply;
  (void)co_await exchange.finish(reply + "\n");
}

}  // namespace pons::mcp
