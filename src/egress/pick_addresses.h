#pragma once

#include <optional>
#include <vector>

#include "pons/egress/policy.h"
#include "pons/names/resolver.h"

namespace pons::egress {

struct AddressChoice {
  Decision decision;
  std::vector<names::IpAddress> to_try;     // in order; none when refused
  std::optional<names::IpAddress> refused;  // the address that the decision is about
};

// Judges every address, also those that would not be tried: one that the policy does not allow
// refuses the name, because who answers with it may answer with it alone next time.
AddressChoice pick_addresses(const names::ResolvedHost& host, const Policy& policy,
                             const Destination& destination, std::uint16_t port);

}  // namespace pons::egress
