#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "pons/base/check.h"
#include "pons/egress/dns_responder.h"

// Promises for any datagram: a reply repeats id and question, is small, can be read again, and
// names only addresses that lead back to the name; a response that is read has bounded, printable
// names.

namespace pons::egress {
namespace {

constexpr TimePoint kNow{std::chrono::hours(24)};

std::shared_ptr<const Policy> any_policy() {
  const PackageHosts packages;
  auto policy = Policy::compile(
      R"({"mode":"public","allow":[{"host":"*.example.com"}],"deny":["*.evil.com"]})", 1, packages);
  CHECK(policy.has_value());
  return *policy;
}

void check_reply(std::string_view bytes) {
  static const auto kPolicy = any_policy();
  SyntheticAddresses addresses;
  const DnsOutcome outcome = answer_dns(bytes, *kPolicy, addresses, kNow);
  const auto query = names::parse_dns_query(bytes);
  CHECK(query.has_value() == !outcome.reply.empty());
  if (!query) return;
  CHECK(outcome.reply.size() >= 12 && outcome.reply.size() <= 512);
  CHECK(outcome.reply.substr(0, 2) == bytes.substr(0, 2));
  if (query->problem != names::DnsCode::kNoError) return;
  const auto reply = names::parse_dns_response(outcome.reply);
  CHECK(reply.has_value() && reply->question == query->question && reply->code == outcome.code);
  for (const names::DnsRecord& record : reply->answers) {
    CHECK(record.name == query->question.name);
    const auto address = names::IpAddress::from_wire(
        {reinterpret_cast<const std::uint8_t*>(record.data.data()), record.data.size()});
    if (record.type == names::kDnsA && outcome.name)
      CHECK(address && addresses.find(*address) == outcome.name);
  }
}

void check_name(std::string_view name) {
  CHECK(name.size() <= 4 * 255);
  for (const char c : name) CHECK(c > 0x20 && c < 0x7F);
}

void check_response(std::string_view bytes) {
  const auto response = names::parse_dns_response(bytes);
  if (!response) return;
  check_name(response->question.name);
  for (const names::DnsRecord& record : response->answers) {
    check_name(record.name);
    if (record.type == names::kDnsCname) check_name(record.data);
  }
}

}  // namespace
}  // namespace pons::egress

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  pons::egress::check_reply(bytes);
  pons::egress::check_response(bytes);
  return 0;
}
