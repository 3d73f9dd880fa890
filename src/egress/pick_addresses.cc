#include "pick_addresses.h"

#include "pons/names/dial.h"

namespace pons::egress {

AddressChoice pick_addresses(const names::ResolvedHost& host, const Policy& policy,
                             const Destination& destination, std::uint16_t port) {
  AddressChoice choice{.decision = {.reason = Reason::kAddressNotAllowed}};
  for (const names::IpAddress& address : host.addresses) {
    choice.decision = policy.judge_address(destination, port, address);
    if (!choice.decision.allowed()) {
      choice.refused = address;
      return choice;
    }
  }
  choice.to_try = names::in_dialling_order(host.addresses, port);
  return choice;
}

}  // namespace pons::egress
