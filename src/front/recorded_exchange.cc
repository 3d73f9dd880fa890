#include "recorded_exchange.h"

#include <algorithm>
#include <ranges>

#include "origins.h"
#include "pons/base/id.h"
#include "pons/base/text.h"

namespace pons::front {

namespace {

constexpr std::size_t kPathBytesMax = 256;
constexpr int kSwitched = 101;
constexpr int kTooMany = 429;
constexpr int kUnavailable = 503;

// Words of our own paths. Anything else may be a secret: a name that somebody chose, or the path of
// an application in a sandbox.
constexpr std::string_view kWords[] = {"v2",
                                       "sandboxes",
                                       "connect",
                                       "resume",
                                       "timeout",
                                       "refreshes",
                                       "pause",
                                       "fork",
                                       "network",
                                       "metrics",
                                       "logs",
                                       "snapshots",
                                       "templates",
                                       "aliases",
                                       "secrets",
                                       "health",
                                       "healthz",
                                       "x",
                                       "status",
                                       "files",
                                       "process.Process",
                                       "Start",
                                       "Connect",
                                       "List",
                                       "Update",
                                       "StreamInput",
                                       "SendInput",
                                       "SendSignal",
                                       "CloseStdin",
                                       "filesystem.Filesystem",
                                       "Stat",
                                       "MakeDir",
                                       "Move",
                                       "ListDir",
                                       "Remove",
                                       "WatchDir",
                                       "CreateWatcher",
                                       "GetWatcherEvents",
                                       "RemoveWatcher",
                                       "v1",
                                       "messages",
                                       "count_tokens",
                                       "chat",
                                       "completions",
                                       "responses",
                                       "models",
                                       "usage",
                                       "agents",
                                       "environments",
                                       "sessions",
                                       "events",
                                       "stream",
                                       "versions",
                                       "archive",
                                       "mcp",
                                       "memory_stores",
                                       "memories",
                                       "memory_versions",
                                       "redact"};

bool is_word(std::string_view segment) {
  return segment.empty() || std::ranges::find(kWords, segment) != std::end(kWords);
}

std::string for_the_log(std::string_view path) {
  std::string shown;
  for (const std::string_view segment :
       split(path.substr(0, kPathBytesMax), '/') | std::views::drop(1))
    shown.append("/").append(is_word(segment) ? segment : "*");
  return shown;
}

bool has_field(const http::Response& response, std::string_view name) {
  return std::ranges::any_of(
      response.fields, [&](const auto& field) { return equal_ignoring_case(field.first, name); });
}

}  // namespace

RecordedExchange::RecordedExchange(http::Exchange& exchange, AccessLog& log)
    : exchange_(exchange),
      log_(log),
      line_{.id = "req_" + random_text(20),
            .key = "-",
            .from = exchange.peer().address,
            .method = std::string(exchange.request().method),
            .path = for_the_log(exchange.request().path())},
      begun_(std::chrono::steady_clock::now()) {}

RecordedExchange::~RecordedExchange() {
  line_.took = std::chrono::steady_clock::now() - begun_;
  log_.write(line_);
}

http::Response RecordedExchange::named(http::Response response) {
  line_.status = response.status;
  line_.bytes += response.body.size();
  response.fields.emplace_back("X-Request-Id", line_.id);
  response.fields.emplace_back("Request-Id", line_.id);  // where Anthropic's SDKs look for it
  if ((response.status == kTooMany || response.status == kUnavailable) &&
      !has_field(response, "Retry-After"))
    response.fields.emplace_back("Retry-After", "1");
  if (!origin_.empty()) allow_origin(origin_, response);
  return response;
}

void RecordedExchange::respond(http::Response response) {
  exchange_.respond(named(std::move(response)));
}

Task<Result<void>> RecordedExchange::start(http::Response head) {
  if (!for_program_) return exchange_.start(named(std::move(head)));
  line_.status = head.status;
  return exchange_.start(std::move(head));
}

Task<Result<void>> RecordedExchange::write(std::string_view bytes) {
  line_.bytes += bytes.size();
  return exchange_.write(bytes);
}

Task<Result<void>> RecordedExchange::finish(std::string_view last) {
  line_.bytes += last.size();
  return exchange_.finish(last);
}

void RecordedExchange::abort() {
  line_.cut = true;
  exchange_.abort();
}

Task<Result<std::unique_ptr<http::WebSocket>>> RecordedExchange::accept_websocket(
    http::WebSocketLimits limits, std::string subprotocol) {
  line_.status = kSwitched;
  return exchange_.accept_websocket(limits, std::move(subprotocol));
}

}  // namespace pons::front
