#include "metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace pons::egress {

namespace {

constexpr std::size_t kSeriesMax = 256;
constexpr std::size_t kCodeBytesMax = 48;

// Codes are constants of ours; should one ever be something else, it is not shown.
std::string label_of(const std::string& code) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return code.size() <= kCodeBytesMax && std::ranges::all_of(code, is_plain) ? code : "other";
}

class Writer {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(text), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  void add(std::string_view labels, std::uint64_t value) {
    fmt::format_to(std::back_inserter(text), "{}{} {}\n", name_, labels, value);
  }
  void gauge(std::string_view name, std::string_view help, std::uint64_t value) {
    begin(name, "gauge", help);
    add("", value);
  }
  std::string text;

 private:
  std::string_view name_;
};

}  // namespace

void Metrics::count(const audit::Decision& decision) {
  Key key{decision.verdict, label_of(decision.code)};
  if (decisions_.size() >= kSeriesMax && !decisions_.contains(key)) key.second = "other";
  ++decisions_[std::move(key)];
  if (decision.verdict != audit::Verdict::kAllow) return;
  if (decision.protocol == "tls") ++spliced_tls_;
  if (decision.protocol == "tcp") ++spliced_tcp_;
}

std::string Metrics::to_text(const State& state) const {
  Writer out;
  out.begin("pons_egress_decisions_total", "counter",
            "Decisions about requests and connections of sandboxes.");
  // Those that have not happened yet are there as well: a rate needs a beginning.
  auto decisions = decisions_;
  for (std::size_t i = 0; i < audit::kVerdicts; ++i)
    decisions.try_emplace({static_cast<audit::Verdict>(i), ""}, 0);
  for (const auto& [key, count] : decisions)
    out.add(fmt::format(R"({{verdict="{}",code="{}"}})", audit::to_string(key.first), key.second),
            count);
  out.begin("pons_egress_spliced_total", "counter",
            "Connections among the allowed that pass without being looked into.");
  out.add(R"({protocol="tls"})", spliced_tls_);
  out.add(R"({protocol="tcp"})", spliced_tcp_);
  out.begin("pons_egress_audit_events_total", "counter", "Events for the audit log.");
  out.add(R"({outcome="written"})", state.audit_written);
  out.add(R"({outcome="suppressed"})", state.audit_suppressed);
  out.add(R"({outcome="lost"})", state.audit_lost);
  out.gauge("pons_egress_sandboxes", "Sandboxes that have a network.", state.sandboxes);
  out.gauge("pons_egress_connections", "Connections of sandboxes that are open.",
            state.connections);
  out.gauge("pons_egress_access_requests_pending", "Access requests that nobody has closed.",
            state.access_requests);
  out.gauge("pons_egress_credentials", "Credentials that can be used.", state.credentials);
  out.gauge("pons_egress_credentials_damaged", "Credentials whose files cannot be read.",
            state.credentials_damaged);
  return std::move(out.text);
}

}  // namespace pons::egress
