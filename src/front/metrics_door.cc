#include "metrics_door.h"

#include "pons/http/error_status.h"
#include "pons/telemetry/merge.h"

namespace pons::front {

namespace {

using roles::Role;

http::ServerLimits limits() {
  return {.head = {.bytes = 8 * 1024, .fields = 50},
          .body_bytes = 0,
          .connections = 32,
          .header_time = std::chrono::seconds(5)};
}

// Whoever asks without a pause gets the same page, and costs the other roles nothing.
constexpr Duration kPageTime = std::chrono::seconds(1);

// A name that leads here by somebody's DNS is how a page in a browser on this host would read it.
bool is_local_name(std::string_view host) {
  if (const std::size_t port = host.rfind(':');
      port != std::string_view::npos && host.find(']', port) == std::string_view::npos)
    host = host.substr(0, port);
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

}  // namespace

MetricsDoor::MetricsDoor(supervisor::RoleRuntime& runtime)
    : runtime_(runtime), server_(runtime.loop(), limits(), [this](http::Exchange& exchange) {
        return handle(exchange);
      }) {}

Result<void> MetricsDoor::open() {
  if (!runtime_.start().descriptors.contains("metrics")) return {};
  runtime_.add_routes(
      {{"PUT", "/metrics/supervisor", [this](http::Exchange& exchange, const http::PathValues&) {
          return take_supervisor_page(exchange);
        }}});
  runtime_.drain_at_end(server_);
  runtime_.measure(server_, "metrics");
  return server_.listen(runtime_.take_descriptor("metrics"), "watcher");
}

Task<> MetricsDoor::handle(http::Exchange& exchange) {
  const http::RequestHead& request = exchange.request();
  if (!is_local_name(request.find("Host").value_or(""))) {
    exchange.respond(
        http::error_response(403, "denied", "ask by a loopback address or as localhost"));
  } else if (request.path() != "/metrics") {
    exchange.respond(http::error_response(404, "not_found", "there is only /metrics here"));
  } else if (request.method != "GET" && request.method != "HEAD") {
    exchange.respond(http::error_response(405, "method_not_allowed", "this address takes: GET"));
  } else {
    exchange.set_route("/metrics");
    co_await answer_page(exchange);
  }
}

Task<> MetricsDoor::answer_page(http::Exchange& exchange) {
  if (page_until_ <= runtime_.loop().now()) {
    page_ = co_await collect();
    page_until_ = runtime_.loop().now() + kPageTime;
  }
  exchange.respond({.content_type = std::string(telemetry::kPageType), .body = page_});
}

// A role that does not answer, or not well, is shown as that.
Task<std::string> MetricsDoor::collect() {
  telemetry::Page all;
  std::vector<std::pair<std::string_view, bool>> heard;
  const auto add = [&](std::string_view name, const Result<std::string>& text) {
    const bool is_good = text && merge_page(all, name, *text);
    heard.emplace_back(name, is_good);
  };
  add("supervisor", supervisor_page_);
  add("front", runtime_.metrics().text());
  for (const Role role : roles::profile_of(Role::kFront).may_dial) {
    auto answer = co_await runtime_.client_to(role).send({.target = "/metrics"});
    if (answer && answer->status() == 200)
      add(roles::name_of(role), co_await answer->read_whole_body(telemetry::kPageBytesMax));
    else
      heard.emplace_back(roles::name_of(role), false);
  }
  all.begin("pons_role_heard", telemetry::Page::Type::kGauge,
            "1 when the figures of this process are on this page.");
  for (const auto& [name, is_good] : heard) all.add({{"role", name}}, is_good ? 1 : 0);
  co_return all.text();
}

Task<> MetricsDoor::take_supervisor_page(http::Exchange& exchange) {
  if (supervisor::refuse_unless_operator(exchange)) co_return;
  auto text = co_await exchange.read_whole_body(telemetry::kPageBytesMax);
  if (!text) {
    exchange.respond(http::error_response(text.error()));
    co_return;
  }
  supervisor_page_ = std::move(*text);
  exchange.respond({.body = "{}\n"});
}

}  // namespace pons::front
