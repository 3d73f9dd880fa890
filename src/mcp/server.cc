#include "pons/mcp/server.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/base/version.h"
#include "pons/mcp/protocol.h"
#include "session_table.h"

// The messages and their sessions; calls of tools are in server_calls.cc.

namespace pons::mcp {

namespace {

bool is_media_type(std::string_view field, std::string_view wanted) {
  return equal_ignoring_case(trim(field.substr(0, field.find(';'))), wanted);
}

bool accepts(const http::RequestHead& request, std::string_view wanted) {
  const auto field = request.find("accept");
  if (!field) return wanted == "application/json";
  const std::string_view kind = wanted.substr(0, wanted.find('/') + 1);
  return std::ranges::any_of(split(*field, ','), [&](std::string_view each) {
    return is_media_type(each, wanted) || is_media_type(each, "*/*") ||
           is_media_type(each, std::string(kind) + "*");
  });
}

// Refusals that are about HTTP: the body is a JSON-RPC error, so that clients find the words.
void refuse(http::Exchange& exchange, int status, std::string message,
            std::int64_t code = kInvalidRequest, std::string id = "null") {
  exchange.respond(
      {.status = status, .body = write_error(std::move(id), code, std::move(message)) + "\n"});
}

void reply(http::Exchange& exchange, std::string message) {
  exchange.respond({.body = std::move(message) + "\n"});
}

std::string id_of(const Message& message) {
  const auto* request = std::get_if<Request>(&message);
  return request == nullptr ? "null" : request->id;
}

// To what comes without a session that is known.
void refuse_without_session(http::Exchange& exchange, const Message& message) {
  const auto* request = std::get_if<Request>(&message);
  if (exchange.request().find(kSessionField))
    return refuse(exchange, 404, "there is no such session; begin with initialize", kInvalidRequest,
                  id_of(message));
  if (request != nullptr && request->method == "ping")
    return reply(exchange, write_result(request->id, "{}"));
  // Clients of protocols to come ask what they may speak: these words send them to initialize.
  if (request != nullptr && !request->method.starts_with("tools/"))
    return reply(exchange, write_error(request->id, kMethodNotFound, "there is no such method"));
  refuse(exchange, 400, "Mcp-Session-Id is missing; begin with initialize", kInvalidRequest,
         id_of(message));
}

}  // namespace

Server::Server(linux::Loop& loop, Toolbox& toolbox, ServerLimits limits)
    : loop_(loop),
      toolbox_(toolbox),
      limits_(limits),
      sessions_(std::make_unique<SessionTable>(loop, limits_)),
      calls_(loop) {}

Server::~Server() = default;

std::size_t Server::session_count() const {
  return sessions_->size();
}

Task<> Server::handle(http::Exchange& exchange, std::string project) {
  const std::string_view method = exchange.request().method;
  if (method == "POST")
    co_await take_message(exchange, std::move(project));
  else if (method == "GET")
    co_await open_stream(exchange, project);
  else if (method == "DELETE")
    end_session(exchange, project);
  else
    exchange.respond(
        {.status = 405, .content_type = {}, .fields = {{"Allow", "DELETE, GET, POST"}}});
}

Task<> Server::take_message(http::Exchange& exchange, std::string project) {
  const http::RequestHead& head = exchange.request();
  if (!is_media_type(head.find("content-type").value_or(""), "application/json"))
    co_return refuse(exchange, 415, "the body must be application/json");
  if (!accepts(head, "application/json") && !accepts(head, "text/event-stream"))
    co_return refuse(exchange, 406,
                     "the client must accept application/json and text/event-stream");
  const auto body = co_await exchange.read_whole_body(kMessageBytesMax);
  if (!body && body.error().code == ErrorCode::kLimit)
    co_return refuse(exchange, 413, fmt::format("a message may have {} bytes", kMessageBytesMax));
  if (!body) co_return refuse(exchange, 400, "the body cannot be read", kParseError);
  auto message = read_message(*body);
  if (!message)
    co_return refuse(exchange, 400, std::move(message.error().error.message),
                     message.error().error.code, std::move(message.error().id));
  auto* request = std::get_if<Request>(&*message);
  if (request != nullptr && request->method == "initialize")
    co_return initialize(exchange, project, *request);
  const Session session = sessions_->find(head.find(kSessionField).value_or(""), project);
  if (session == nullptr) co_return refuse_without_session(exchange, *message);
  if (!is_known_version(head.find(kVersionField).value_or(kUnsaidVersion)))
    co_return refuse(exchange, 400, "this MCP-Protocol-Version is not known here", kInvalidRequest,
                     id_of(*message));
  if (request != nullptr) co_return co_await answer(exchange, session, std::move(*request));
  if (const auto* notification = std::get_if<Notification>(&*message))
    take_notification(*session, *notification);
  exchange.respond({.status = 202, .content_type = {}});
}

void Server::initialize(http::Exchange& exchange, const std::string& project,
                        const Request& request) {
  const auto params = parse_json(request.params);
  const Json* asked =
      params && params->contains("protocolVersion") ? &params->at("protocolVersion") : nullptr;
  if (asked == nullptr || !asked->is_string())
    return reply(exchange,
                 write_error(request.id, kInvalidParams, "\"protocolVersion\" must be a text"));
  const std::string version(negotiate_version(asked->get_ref<const std::string&>()));
  Session ousted;
  auto session = sessions_->create(project, version, ousted);
  if (ousted != nullptr) end(ousted);
  if (!session)
    return refuse(exchange, 429, std::move(session.error().message), kLimitReached, request.id);
  Json result = {{"protocolVersion", version},
                 {"capabilities", {{"tools", Json::object()}}},
                 {"serverInfo", {{"name", "pons"}, {"version", pons::version()}}}};
  if (auto words = toolbox_.instructions(); !words.empty())
    result["instructions"] = std::move(words);
  exchange.respond({.body = write_result(request.id, dump_json(result)) + "\n",
                    .fields = {{"Mcp-Session-Id", (*session)->id}}});
}

Task<> Server::answer(http::Exchange& exchange, Session session, Request request) {
  if (request.method == "ping")
    reply(exchange, write_result(request.id, "{}"));
  else if (request.method == "tools/list")
    reply(exchange, list_tools(*session, request));
  else if (request.method == "tools/call")
    co_await call_tool(exchange, std::move(session), std::move(request));
  else
    reply(exchange, write_error(request.id, kMethodNotFound, "there is no such method"));
}

// All of them fit on one page; nobody was given a cursor.
std::string Server::list_tools(const ServerSession& session, const Request& request) const {
  const auto params = parse_json(request.params);
  if (params && params->contains("cursor"))
    return write_error(request.id, kInvalidParams, "there is no such page");
  return write_result(request.id, fmt::format(R"({{"tools":{}}})", toolbox_.list(session.project)));
}

void Server::take_notification(ServerSession& session, const Notification& notification) {
  if (notification.method != "notifications/cancelled") return;
  const auto params = parse_json(notification.params);
  if (!params || !params->contains("requestId")) return;
  const auto call = session.calls.find(dump_json(params->at("requestId")));
  if (call == session.calls.end() || call->second->is_cancelled) return;
  call->second->is_cancelled = true;
  call->second->done.set();
  toolbox_.cancel(session.id, call->second->id);
}

// Nothing ever comes out of it: tools stay the same. But a session is in use while it is open.
Task<> Server::open_stream(http::Exchange& exchange, const std::string& project) {
  const http::RequestHead& head = exchange.request();
  if (!accepts(head, "text/event-stream"))
    co_return refuse(exchange, 406, "the client must accept text/event-stream");
  const Session session = sessions_->find(head.find(kSessionField).value_or(""), project);
  if (session == nullptr)
    co_return refuse_without_session(exchange, Notification{.method = "stream"});
  // One that is opened again takes the place of one whose end was not heard of yet.
  if (session->stream != nullptr) session->stream->set();
  const auto over = std::make_shared<linux::Event>(loop_);
  session->stream = over;
  struct Closed {
    ServerSession& session;
    linux::Loop& loop;
    const std::shared_ptr<linux::Event>& stream;
    ~Closed() {
      session.used = loop.now();
      if (session.stream == stream) session.stream = nullptr;
    }
  } const at_end{*session, loop_, over};
  if (!co_await exchange.start_events()) co_return;
  while (co_await over->wait(loop_.now() + limits_.keep_alive_time) == linux::Wait::kTimeout)
    if (!co_await exchange.write(http::kEventStreamKeepAlive)) co_return;
  (void)co_await exchange.finish();
}

void Server::end_session(http::Exchange& exchange, const std::string& project) {
  const auto id = exchange.request().find(kSessionField);
  const Session session = sessions_->find(id.value_or(""), project);
  if (session == nullptr) return refuse_without_session(exchange, Notification{.method = "end"});
  end(session);
  exchange.respond({.status = 204, .content_type = {}});
}

// Calls under way end with their sandboxes, and whoever waits for them is told.
void Server::end(const Session& session) {
  sessions_->remove(session->id);
  if (session->stream != nullptr) session->stream->set();
  toolbox_.end(session->id);
}

Task<> Server::keep_tidy() {
  for (;;) {
    co_await loop_.sleep_for(limits_.idle_time / 8);
    for (const Session& session : sessions_->find_idle()) end(session);
  }
}

}  // namespace pons::mcp
