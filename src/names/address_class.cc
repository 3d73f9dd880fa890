#include <vector>

#include "pons/base/check.h"
#include "pons/names/ip_address.h"

namespace pons::names {
namespace {

struct ClassedRange {
  CidrRange range;
  AddressClass address_class;
};

// The first range that holds an address decides.
std::vector<ClassedRange> build_ranges() {
  using enum AddressClass;
  static constexpr struct {
    const char* range;
    AddressClass address_class;
  } kRanges[] = {
      // Where clouds serve credentials and settings of the machine.
      {"169.254.169.0/24", kMetadata},  // AWS, Google, Azure, Oracle, OpenStack…
      {"169.254.170.0/24", kMetadata},  // AWS container credentials
      {"169.254.0.23", kMetadata},      // Tencent
      {"169.254.42.42", kMetadata},     // Scaleway
      {"168.63.129.16", kMetadata},     // Azure's host
      {"100.100.100.200", kMetadata},   // Alibaba
      {"192.0.0.192", kMetadata},       // Oracle
      {"fd00:ec2::/32", kMetadata},     // AWS
      {"fd20:ce::254", kMetadata},      // Google
      {"fd00:42::42", kMetadata},       // Scaleway
      {"fe80::a9fe:a9fe", kMetadata},   // link-local form of 169.254.169.254
      // The synthetic addresses of egress itself.
      {"198.18.0.0/15", kBenchmark},
      {"fd50:6f6e:7300::/48", kBenchmark},
      // For documentation: never routed, so where one is in use, it is as a private address.
      {"192.0.2.0/24", kPrivate},
      {"198.51.100.0/24", kPrivate},
      {"203.0.113.0/24", kPrivate},
      {"2001:db8::/32", kPrivate},
      {"3fff::/20", kPrivate},
      {"0.0.0.0", kUnspecified},
      {"0.0.0.0/8", kReserved},
      {"10.0.0.0/8", kPrivate},
      {"100.64.0.0/10", kPrivate},
      {"127.0.0.0/8", kLoopback},
      {"169.254.0.0/16", kLinkLocal},
      {"172.16.0.0/12", kPrivate},
      {"192.0.0.0/24", kReserved},
      {"192.88.99.0/24", kReserved},
      {"192.168.0.0/16", kPrivate},
      {"224.0.0.0/4", kMulticast},
      {"240.0.0.0/4", kReserved},
      {"0.0.0.0/0", kPublic},
      {"::", kUnspecified},
      {"::1", kLoopback},
      {"fc00::/7", kPrivate},
      {"fe80::/10", kLinkLocal},
      {"ff00::/8", kMulticast},
      {"2001::/23", kReserved},  // Teredo, ORCHID and other ways to somewhere else
      {"2000::/3", kPublic},
      {"::/0", kReserved},
  };
  std::vector<ClassedRange> ranges;
  for (const auto& [text, address_class] : kRanges) {
    auto range = CidrRange::parse(text);
    CHECK(range.has_value());
    ranges.push_back({*range, address_class});
  }
  return ranges;
}

}  // namespace

std::string_view to_string(AddressClass address_class) {
  switch (address_class) {
    case AddressClass::kPublic:
      return "public";
    case AddressClass::kPrivate:
      return "private";
    case AddressClass::kLoopback:
      return "loopback";
    case AddressClass::kLinkLocal:
      return "link-local";
    case AddressClass::kMetadata:
      return "metadata";
    case AddressClass::kMulticast:
      return "multicast";
    case AddressClass::kReserved:
      return "reserved";
    case AddressClass::kUnspecified:
      return "unspecified";
    case AddressClass::kBenchmark:
      return "synthetic";
  }
  return "unknown";
}

AddressClass classify(const IpAddress& address) {
  static const std::vector<ClassedRange> kRanges = build_ranges();
  const IpAddress reached = address.embedded();
  for (const ClassedRange& entry : kRanges)
    if (entry.range.contains(reached)) return entry.address_class;
  return AddressClass::kReserved;
}

bool can_be_opened(AddressClass address_class) {
  return address_class == AddressClass::kPublic || address_class == AddressClass::kPrivate ||
         address_class == AddressClass::kLoopback || address_class == AddressClass::kLinkLocal;
}

}  // namespace pons::names
