#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/egress/policy.h"

// Promises for any document, name and path: reading ends; an error is one printable line; names
// have one form; no policy opens the addresses that none may open. The first line is a document,
// the second a host, the third a request target.

namespace pons::egress {
namespace {

void check_host(std::string_view text, const Policy* policy, std::string_view target) {
  const auto host = parse_destination(text);
  if (!host) return;
  const std::string canonical = to_text(*host);
  CHECK(to_text(parse_destination(canonical).value()) == canonical);
  if (policy == nullptr) return;
  for (const char* closed : {"169.254.169.254", "::ffff:169.254.169.254", "0.0.0.0", "198.18.0.1"})
    CHECK(!policy->judge_address(*host, 443, names::IpAddress::parse(closed).value()).allowed());
  const auto connect = policy->judge_connect(*host, 443);
  const auto request = policy->judge_request(*host, 443, "GET", target);
  CHECK(connect.allowed() || !request.allowed());
  CHECK(policy->needs_inspection(*host, 443) || request.reason == connect.reason);
}

}  // namespace
}  // namespace pons::egress

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pons::egress;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto lines = pons::split(input, '\n');
  const PackageHosts packages;
  const auto policy = Policy::compile(lines[0], 1, packages);
  if (!policy) {
    const std::string message = policy.error().describe();
    CHECK(message.size() < 2048);
    for (const char c : message) CHECK(static_cast<unsigned char>(c) >= 0x20);
  }
  if (lines.size() > 1)
    check_host(lines[1], policy ? policy->get() : nullptr, lines.size() > 2 ? lines[2] : "/");
  return 0;
}
