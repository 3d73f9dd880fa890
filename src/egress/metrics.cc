#include "metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace pons::egress {

namespace {

constexpr std::size_t kSeriesMax = 256;
constexpr std::size_t kCodeBytesMax = 48;

// Codes are constants of ours; should one ever be something else, it is not shown.
std::string label_of(const std::string& code) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return code.size() <= kCodeBytesMax && std::ranges::all_of(code, is_plain) ? code : "other";
}

}  // namespace

void Metrics::count(const audit::Decision& decision) {
  Key key{decision.verdict, label_of(decision.code)};
  if (decisions_.size() >= kSeriesMax && !decisions_.contains(key)) key.second = "other";
  ++decisions_[std::move(key)];
  bytes_in_ += decision.bytes_in;
  bytes_out_ += decision.bytes_out;
  if (decision.verdict != audit::Verdict::kAllow) return;
  if (decision.protocol == "tls") ++spliced_tls_;
  if (decision.protocol == "tcp") ++spliced_tcp_;
}

void Metrics::write(telemetry::Page& page, const State& state) const {
  using enum telemetry::Page::Type;
  page.begin("pons_egress_decisions_total", kCounter,
             "Decisions about requests and connections of sandboxes.");
  // Those that have not happened yet are there as well: a rate needs a beginning.
  auto decisions = decisions_;
  for (std::size_t i = 0; i < audit::kVerdicts; ++i)
    decisions.try_emplace({static_cast<audit::Verdict>(i), ""}, 0);
  for (const auto& [key, count] : decisions)
    page.add({{"verdict", audit::to_string(key.first)}, {"code", key.second}}, count);
  page.begin("pons_egress_spliced_total", kCounter,
             "Connections among the allowed that pass without being looked into.");
  page.add({{"protocol", "tls"}}, spliced_tls_);
  page.add({{"protocol", "tcp"}}, spliced_tcp_);
  page.begin("pons_egress_bytes_total", kCounter,
             "Bytes of bodies and of connections that pass unseen, as they were decided about.");
  page.add({{"direction", "from_sandboxes"}}, bytes_in_);
  page.add({{"direction", "to_sandboxes"}}, bytes_out_);
  page.begin("pons_egress_audit_events_total", kCounter, "Events for the audit log.");
  page.add({{"outcome", "written"}}, state.audit_written);
  page.add({{"outcome", "suppressed"}}, state.audit_suppressed);
  page.add({{"outcome", "lost"}}, state.audit_lost);
  const auto gauge = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    page.begin(name, kGauge, help);
    page.add({}, value);
  };
  gauge("pons_egress_sandboxes", "Sandboxes that have a network.", state.sandboxes);
  gauge("pons_egress_connections", "Connections of sandboxes that are open.", state.connections);
  gauge("pons_egress_access_requests_pending", "Access requests that nobody has closed.",
        state.access_requests);
  gauge("pons_egress_credentials", "Credentials that can be used.", state.credentials);
  gauge("pons_egress_credentials_damaged", "Credentials whose files cannot be read.",
        state.credentials_damaged);
}

}  // namespace pons::egress
