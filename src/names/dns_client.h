#pragma once

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"
#include "pons/names/dns_message.h"
#include "pons/names/resolver_settings.h"

namespace pons::names {

// Asks one server once, from a port and with an id that nobody can guess; over TCP when the answer
// did not fit. Datagrams that do not answer exactly this question are not looked at.
Task<Result<DnsResponse>> ask_nameserver(linux::Loop& loop, Nameserver server, HostName name,
                                         std::uint16_t type, TimePoint deadline);

}  // namespace pons::names
