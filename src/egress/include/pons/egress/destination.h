#pragma once

#include <string>
#include <variant>

#include "pons/names/host_name.h"
#include "pons/names/ip_address.h"

namespace pons::egress {

// Where a sandbox wants to go: a name, or an address that it wrote down itself.
using Destination = std::variant<names::HostName, names::IpAddress>;

std::string to_text(const Destination& destination);

// A host as a URL, a Host field or a rule writes it: a name, an IPv4 address, or an IPv6 address in
// brackets or without.
Result<Destination> parse_destination(std::string_view text);

}  // namespace pons::egress
