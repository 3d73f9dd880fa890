#include "rpc.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "connect.h"
#include "failure.h"
#include "filesystem.h"
#include "pons/base/text.h"
#include "processes.h"
#include "rpc_stream.h"
#include "stream_input.h"

namespace pons::e2b {

namespace {

constexpr std::size_t kMessageBytesMax = 16U << 20;
constexpr std::size_t kStreamRequestBytesMax = 1U << 20;

using Unary = Task<Result<Json>> (*)(Call&, const Json&);
using Stream = Task<Result<void>> (*)(Call&, const Json&, RpcStream&);

struct Method {
  std::string_view path;
  Unary unary = nullptr;
  Stream stream = nullptr;
};

constexpr Method kMethods[] = {
    {.path = "/process.Process/Start", .stream = start_process},
    {.path = "/process.Process/Connect", .stream = connect_process},
    {.path = "/process.Process/List", .unary = list_processes},
    {.path = "/process.Process/SendInput", .unary = send_input},
    {.path = "/process.Process/CloseStdin", .unary = close_stdin},
    {.path = "/process.Process/SendSignal", .unary = send_signal},
    {.path = "/process.Process/Update", .unary = update_process},
    {.path = "/filesystem.Filesystem/Stat", .unary = stat_entry},
    {.path = "/filesystem.Filesystem/ListDir", .unary = list_entries},
    {.path = "/filesystem.Filesystem/MakeDir", .unary = make_directory},
    {.path = "/filesystem.Filesystem/Move", .unary = move_entry},
    {.path = "/filesystem.Filesystem/Remove", .unary = remove_entry},
    {.path = "/filesystem.Filesystem/WatchDir", .stream = watch_directory},
    {.path = "/filesystem.Filesystem/CreateWatcher", .unary = create_watcher},
    {.path = "/filesystem.Filesystem/GetWatcherEvents", .unary = take_watcher_events},
    {.path = "/filesystem.Filesystem/RemoveWatcher", .unary = remove_watcher},
};

bool has_type(const http::RequestHead& head, std::string_view wanted) {
  const std::string_view type = head.find("Content-Type").value_or("");
  return equal_ignoring_case(trim(type.substr(0, type.find(';'))), wanted);
}

void refuse_type(http::Exchange& exchange, const char* wanted) {
  exchange.respond(
      {.status = 415, .content_type = "", .body = "", .fields = {{"Accept-Post", wanted}}});
}

// ---- one answer

Task<Result<Json>> ask(Call& call, Unary work) {
  CO_TRY(const auto text, co_await call.exchange.read_whole_body(kMessageBytesMax));
  CO_TRY(const Json request, parse_json(text.empty() ? "{}" : text, {.bytes = kMessageBytesMax}));
  co_return co_await work(call, request);
}

Task<Result<Json>> ask_in_time(Call& call, Unary work) {
  const auto timeout = requested_timeout(call.exchange.request());
  if (!timeout) co_return co_await ask(call, work);
  auto answer = co_await linux::within(call.loop, call.loop.now() + *timeout, ask(call, work));
  if (answer) co_return std::move(*answer);
  co_return make_error(ErrorCode::kTimeout, "answer call", "the time of this call is over");
}

Task<> answer_unary(Call& call, Unary work) {
  if (!has_type(call.exchange.request(), "application/json")) {
    refuse_type(call.exchange, "application/json");
    co_return;
  }
  const auto answer = co_await ask_in_time(call, work);
  if (answer) {
    call.exchange.respond({.body = dump_json(*answer)});
  } else if (is_gone(answer.error())) {
    respond_gone(call.exchange, call.id());
  } else {
    call.exchange.respond(
        {.status = rpc_code(answer.error()).status, .body = rpc_error_json(answer.error())});
  }
}

// ---- a stream

Result<Json> stream_request(std::string_view body) {
  const auto parse = parse_envelope(body, kStreamRequestBytesMax);
  if (parse.state != EnvelopeParse::State::kDone || parse.consumed != body.size())
    return make_error(ErrorCode::kInvalid, "read message",
                      parse.state == EnvelopeParse::State::kRefused
                          ? parse.reason
                          : "the body must be one whole message");
  return parse_json(parse.payload.empty() ? "{}" : parse.payload);
}

Task<> finish_stream(Call& call, RpcStream& events, Result<void> done) {
  if (done) {
    co_await events.end();
  } else if (!is_gone(done.error())) {
    co_await events.end(std::move(done).error());
  } else if (events.has_begun()) {
    events.abort();
  } else {
    respond_gone(call.exchange, call.id());
  }
}

Task<> stream(Call& call, Stream work, Result<Json> request) {
  RpcStream events(call.exchange);
  Result<void> done;
  if (request) {
    done = co_await work(call, *request, events);
  } else {
    done = std::move(request).error();
  }
  co_await finish_stream(call, events, std::move(done));
}

Task<> answer_stream(Call& call, Stream work) {
  if (!has_type(call.exchange.request(), kStreamType)) {
    refuse_type(call.exchange, kStreamType);
    co_return;
  }
  const auto body =
      co_await call.exchange.read_whole_body(kStreamRequestBytesMax + Envelope::kHeadBytes);
  Result<Json> request = body ? stream_request(*body) : Result<Json>(body.error());
  // Who leaves a stream leaves the process running, and holds nothing here any more.
  (void)co_await run_while_client_stays(call.exchange, stream(call, work, std::move(request)));
}

}  // namespace

bool refuse_rpc(http::Exchange& exchange, const Error& error) {
  const http::RequestHead& head = exchange.request();
  const auto method = std::ranges::find(kMethods, head.path(), &Method::path);
  if (head.method != "POST" || method == std::end(kMethods)) return false;
  // Of another status than 200 a client of streams reads the status alone.
  if (method->stream != nullptr && has_type(head, kStreamType))
    exchange.respond({.content_type = kStreamType, .body = end_of_stream(error)});
  else
    exchange.respond({.status = rpc_code(error).status, .body = rpc_error_json(error)});
  return true;
}

Task<bool> answer_rpc(Call& call) {
  const http::RequestHead& head = call.exchange.request();
  if (head.method != "POST") co_return false;
  if (head.path() == "/process.Process/StreamInput") {
    co_await answer_stream_input(call);
    co_return true;
  }
  const auto method = std::ranges::find(kMethods, head.path(), &Method::path);
  if (method == std::end(kMethods)) co_return false;
  if (method->unary != nullptr) {
    co_await answer_unary(call, method->unary);
  } else {
    co_await answer_stream(call, method->stream);
  }
  co_return true;
}

}  // namespace pons::e2b
