#include "collector.h"

#include <algorithm>

#include "pons/base/text.h"
#include "pons/gateway/otlp_headers.h"
#include "pons/http/error_status.h"

namespace pons::gateway {

namespace {

using telemetry::Span;

constexpr Duration kSendTime = std::chrono::seconds(10);
constexpr std::size_t kAnswerBytesMax = 64 * 1024;
constexpr std::size_t kSpansBytesMax = std::size_t{2} << 20;

std::optional<Duration> retry_after(const http::ResponseHead& head) {
  constexpr std::uint64_t kLongest = 3'600;
  const auto field = head.find("retry-after");
  const auto seconds = field ? parse_decimal(*field) : std::nullopt;
  if (!seconds) return std::nullopt;
  return Duration(std::chrono::seconds(std::min(*seconds, kLongest)));
}

Task<Result<SpanExport::Reply>> post(Provider& collector, const Secret& headers, std::string body) {
  http::OwnedFields fields;
  if (!headers.empty()) {
    CO_TRY(fields, read_otlp_headers(headers.reveal()));
  }
  fields.emplace_back("Content-Type", "application/json");
  CO_TRY(auto sent, co_await collector.send({.method = "POST",
                                             .target = collector.settings().url.path + "/v1/traces",
                                             .fields = std::move(fields),
                                             .body = std::move(body)}));
  SpanExport::Reply reply{.status = sent.answer->status(),
                          .retry_after = retry_after(sent.answer->head())};
  while (reply.body.size() < kAnswerBytesMax) {
    CO_TRY(const std::string_view piece, co_await sent.answer->read_body());
    if (piece.empty()) break;
    reply.body += piece;
  }
  co_return reply;
}

std::string text_at(const Span& span, std::string_view attribute) {
  const Span::Value* value = span.find(attribute);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::string() : *text;
}

void add_provider(Span& span, const ModelSettings& settings) {
  const std::string asked = text_at(span, "gen_ai.request.model");
  if (asked.empty() || span.find("gen_ai.provider.name") != nullptr) return;
  std::string provider = provider_of(settings, asked, text_at(span, "gen_ai.response.model"));
  if (!provider.empty()) span.attributes.emplace_back("gen_ai.provider.name", std::move(provider));
}

Task<> take_spans(SpanExport& spans, const Routing& routing, http::Exchange& exchange) {
  if (exchange.peer().role != "brain") {
    exchange.respond(http::error_response(403, "denied", "only the brain has spans"));
    co_return;
  }
  const auto text = co_await exchange.read_whole_body(kSpansBytesMax);
  auto read = text ? telemetry::read_spans(*text) : Result<std::vector<Span>>(text.error());
  if (!read) {
    exchange.respond(http::error_response(read.error()));
    co_return;
  }
  for (Span& span : *read) add_provider(span, routing.settings());
  spans.add(std::move(*read));
  exchange.respond({.status = 202, .body = "{}\n"});
}

}  // namespace

Result<std::unique_ptr<Provider>> make_collector(linux::Loop& loop, const std::string& endpoint,
                                                 names::Resolver& resolver) {
  ProviderSettings settings{.name = "otlp",
                            .url = TRY(ProviderUrl::parse(endpoint)),
                            .first_event_time = kSendTime,
                            .next_event_time = kSendTime,
                            .whole_time = kSendTime};
  std::shared_ptr<http::TlsContext> tls;
  if (settings.url.tls) tls = TRY(http::TlsContext::create_client(std::string()));
  return std::make_unique<Provider>(loop, std::move(settings), std::vector<Secret>(), resolver,
                                    std::move(tls));
}

SpanExport::Send send_to(Provider& collector, const Secret& headers) {
  return [&collector, &headers](std::string body) {
    return post(collector, headers, std::move(body));
  };
}

std::vector<http::Route> span_routes(SpanExport& spans, const Routing& routing) {
  return {{"POST", "/spans", [&](http::Exchange& exchange, const http::PathValues&) {
             return take_spans(spans, routing, exchange);
           }}};
}

}  // namespace pons::gateway
