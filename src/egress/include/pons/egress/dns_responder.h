#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/egress/policy.h"
#include "pons/egress/synthetic_addresses.h"
#include "pons/names/dns_message.h"

namespace pons::egress {

struct DnsOutcome {
  std::string reply;  // empty: no reply is due. At most 512 bytes, so it is never truncated
  names::DnsCode code = names::DnsCode::kNoError;
  // For the audit, when a name was judged.
  std::optional<names::HostName> name;
  Decision decision;
};

// Answers one query of a sandbox out of its policy and addresses alone; nothing is asked upstream.
//
// Allowed names get a synthetic A and AAAA; everything else about them is said not to exist, HTTPS
// and SVCB records too, so that no client encrypts its ClientHello. Other names do not exist.
DnsOutcome answer_dns(std::string_view query, const Policy& policy, SyntheticAddresses& addresses,
                      TimePoint now);

}  // namespace pons::egress
