#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pons/base/clock.h"
#include "pons/names/host_name.h"
#include "pons/names/ip_address.h"

namespace pons::names {

struct Nameserver {
  IpAddress address;
  std::uint16_t port = 53;
  bool operator==(const Nameserver&) const = default;
};

// What the machine's resolv.conf(5) and hosts(5) say, with the defaults of the C library.
struct ResolverSettings {
  std::vector<Nameserver> nameservers;
  Duration attempt_time = std::chrono::seconds(5);
  unsigned attempts = 2;
  std::unordered_map<HostName, std::vector<IpAddress>> hosts;
};

// Files that are not there count as empty; lines that make no sense are left out. Search lists are
// not used: every name is whole.
ResolverSettings read_resolver_settings(const std::string& root = "/");
ResolverSettings parse_resolver_settings(std::string_view resolv_conf, std::string_view hosts);

}  // namespace pons::names
