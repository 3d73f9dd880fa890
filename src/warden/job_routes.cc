#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/sandbox/wire.h"
#include "route_words.h"
#include "routes.h"

namespace pons::warden {

namespace {

using namespace sandbox;

constexpr const char* kJsonLines = "application/x-ndjson";
constexpr std::size_t kLinesBytesMax = 512 * 1024;
constexpr std::size_t kInputPieceBytes = 64 * 1024;

// What is there is sent in one piece, and what follows at once when it comes. A client that leaves
// ends the following and not the job.
Task<> send_events(http::Exchange& exchange, std::unique_ptr<JobStream> stream,
                   std::string lines = {}) {
  bool begun = false;
  lines += dump_json({{"job", stream->job_id()}}) + "\n";
  for (;;) {
    const bool waits = lines.empty();
    const TimePoint now = exchange.loop().now();
    auto event = co_await stream->next(waits ? now + kKeepAlive : now);
    if (event && *event) {
      lines += dump_json(to_json(**event)) + "\n";
      if (lines.size() < kLinesBytesMax) continue;
    } else if (event) {
      if (!begun && !co_await exchange.start({.content_type = kJsonLines})) co_return;
      (void)co_await exchange.finish(lines);
      co_return;
    } else if (event.error().code != ErrorCode::kTimeout) {
      if (!begun) (void)co_await exchange.start({.content_type = kJsonLines, .body = lines});
      exchange.abort();
      co_return;
    } else if (waits) {
      lines = "\n";
    }
    const auto sent = std::exchange(begun, true)
                          ? co_await exchange.write(lines)
                          : co_await exchange.start({.content_type = kJsonLines, .body = lines});
    if (!sent) co_return;
    lines.clear();
  }
}

Task<Result<void>> execute(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(auto job, from_json<JobSpec>(body));
  CO_TRY(auto stream, co_await provider.execute(words[0], std::move(job)));
  co_await send_events(exchange, std::move(stream));
  co_return {};
}

// A sandbox, its first job, and its end unless it is to be kept: one request instead of three. Who
// leaves before the job has ended gives the sandbox up as well, and one that is not to be kept does
// not outlive the warden either. Made twice with the same id, the second call is refused.
Task<Result<void>> run(Provider& provider, http::Exchange& exchange, Words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(auto wanted, from_json<RunRequest>(body));
  if (wanted.sandbox.id.empty()) wanted.sandbox.id = "run-" + random_text(20);
  wanted.sandbox.must_be_new = !wanted.keep;
  wanted.sandbox.ephemeral = !wanted.keep;
  const std::string id = wanted.sandbox.id;
  const auto created = co_await provider.create_for_job(std::move(wanted.sandbox));
  if (!created) {
    // It may still come up after the caller's patience has ended.
    if (!wanted.keep && created.error().code == ErrorCode::kTimeout)
      (void)co_await provider.destroy(id);
    co_return created.error();
  }
  const SandboxInfo& info = *created;
  auto stream = co_await provider.execute(info.id, std::move(wanted.job));
  if (stream)
    co_await send_events(exchange, std::move(*stream),
                         dump_json({{"sandbox", to_json(info)}}) + "\n");
  if (!wanted.keep) (void)co_await provider.destroy(info.id);
  if (!stream) co_return stream.error();
  co_return {};
}

Task<Result<void>> attach(Provider& provider, http::Exchange& exchange, Words words) {
  const std::string_view query = exchange.request().query();
  CO_TRY(const auto output, query_number(query, "output", 0));
  CO_TRY(const auto error, query_number(query, "error", 0));
  CO_TRY(auto stream,
         co_await provider.attach(words[0], words[1], {.output = output, .error = error}));
  co_await send_events(exchange, std::move(stream));
  co_return {};
}

Task<Result<void>> list_jobs(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto jobs, co_await provider.list_jobs(words[0]));
  Json list = Json::array();
  for (const JobInfo& job : jobs) list.push_back(to_json(job));
  respond_json(exchange, 200, {{"jobs", std::move(list)}});
  co_return {};
}

Task<Result<void>> write_input(Provider& provider, http::Exchange& exchange, Words words) {
  for (;;) {
    CO_TRY(const std::string_view piece, co_await exchange.read_body());
    if (piece.empty()) break;
    for (std::size_t at = 0; at < piece.size(); at += kInputPieceBytes)
      CO_TRY_VOID(co_await provider.write_input(words[0], words[1],
                                                std::string(piece.substr(at, kInputPieceBytes))));
  }
  respond_empty(exchange);
  co_return {};
}

Task<Result<void>> close_input(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY_VOID(co_await provider.close_input(words[0], words[1]));
  respond_empty(exchange);
  co_return {};
}

Result<std::uint16_t> number_in(const Json& body, const char* name, std::uint16_t most) {
  const auto found = body.is_object() ? body.find(name) : body.end();
  if (found != body.end() && found->is_number_unsigned() && found->get<std::uint64_t>() <= most)
    return found->get<std::uint16_t>();
  return make_error(ErrorCode::kInvalid, "read body",
                    fmt::format("\"{}\" must be a number from 0 to {}", name, most));
}

Task<Result<void>> signal(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(const auto number, number_in(body, "signal", 64));
  CO_TRY_VOID(co_await provider.signal(words[0], words[1], number));
  respond_empty(exchange);
  co_return {};
}

Task<Result<void>> kill(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY_VOID(co_await provider.kill(words[0], words[1]));
  respond_empty(exchange);
  co_return {};
}

Task<Result<void>> resize(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(const auto rows, number_in(body, "rows", 10'000));
  CO_TRY(const auto columns, number_in(body, "columns", 10'000));
  CO_TRY_VOID(co_await provider.resize(words[0], words[1], {.rows = rows, .columns = columns}));
  respond_empty(exchange);
  co_return {};
}

}  // namespace

void append_job_routes(Provider& provider, std::vector<http::Route>& routes) {
  const auto add = [&](std::string_view method, std::string_view pattern, RouteWork work) {
    routes.push_back({method, pattern, handler_of(provider, work)});
  };
  add("POST", "/run", run);
  add("POST", "/sandboxes/{id}/jobs", execute);
  add("GET", "/sandboxes/{id}/jobs", list_jobs);
  add("GET", "/sandboxes/{id}/jobs/{job}", attach);
  add("POST", "/sandboxes/{id}/jobs/{job}/input", write_input);
  add("DELETE", "/sandboxes/{id}/jobs/{job}/input", close_input);
  add("POST", "/sandboxes/{id}/jobs/{job}/signal", signal);
  add("POST", "/sandboxes/{id}/jobs/{job}/kill", kill);
  add("POST", "/sandboxes/{id}/jobs/{job}/resize", resize);
}

}  // namespace pons::warden
