#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pons/base/json.h"
#include "pons/egress/destination.h"

namespace pons::egress {

struct PackageHost {
  Destination host;
  std::uint16_t port = 443;
  auto operator<=>(const PackageHost&) const = default;
};

// Where apt, npm, pip and cargo of this machine get their packages from, by the word a policy uses.
using PackageHosts = std::map<std::string, std::vector<PackageHost>, std::less<>>;

// Reads the tools' configuration below `root`, and where that leaves it to them what they
// themselves were made to ask. No host is known otherwise: a tool that names none has none. Users
// and passwords in addresses are dropped. Files that cannot be read count as absent.
PackageHosts read_package_hosts(const std::string& root = "/");

// What npm and pip of this machine ask in place of what they would ask by themselves: {"npm":
// "https://npm.example.org/"}, without user and password.
std::map<std::string, std::string> read_package_registries(const std::string& root = "/");

// {"apt": ["deb.example.org:443"]}: from who may read the configuration to who may not.
Json to_json(const PackageHosts& hosts);
Result<PackageHosts> parse_package_hosts(const Json& json);

}  // namespace pons::egress
