#include "pons/http/server_counts.h"

#include <algorithm>

namespace pons::http {

void ServerCounts::count_request(std::string_view route, int status) {
  // Clients repeat themselves.
  if (requests_[last_].route != route) {
    auto found = std::ranges::find(requests_, route, &Requests::route);
    if (found == requests_.end())
      found = requests_.size() < kRoutesMax ? requests_.insert(found, {.route = route})
                                            : requests_.begin();
    last_ = static_cast<std::size_t>(found - requests_.begin());
  }
  ++requests_[last_].by_class[static_cast<std::size_t>(std::clamp(status / 100, 1, 5) - 1)];
}

void write_counts(telemetry::Page& page, std::string_view listener, const ServerCounts& counts,
                  std::size_t open) {
  using enum telemetry::Page::Type;
  static constexpr std::array<std::string_view, 5> kClasses = {"1xx", "2xx", "3xx", "4xx", "5xx"};
  page.begin("pons_http_requests_total", kCounter, "Requests that were answered.");
  for (const ServerCounts::Requests& requests : counts.requests_)
    for (std::size_t i = 0; i < kClasses.size(); ++i)
      if (requests.by_class[i] > 0)
        page.add({{"listener", listener},
                  {"route", requests.route.empty() ? "none" : requests.route},
                  {"status", kClasses[i]}},
                 requests.by_class[i]);
  page.begin("pons_http_connections", kGauge, "Connections that are open.");
  page.add({{"listener", listener}}, open);
  page.begin("pons_http_connections_total", kCounter, "Connections that were opened.");
  page.add({{"listener", listener}}, counts.connections);
  page.begin("pons_http_streams", kGauge, "Answers under way that come piece by piece.");
  page.add({{"listener", listener}}, counts.streams);
  page.begin("pons_http_bytes_total", kCounter, "Bytes of requests and answers, WebSockets apart.");
  page.add({{"listener", listener}, {"direction", "in"}}, counts.received_bytes);
  page.add({{"listener", listener}, {"direction", "out"}}, counts.sent_bytes);
}

}  // namespace pons::http
