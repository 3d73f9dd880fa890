#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/egress/dns_message.h"
#include "pons/egress/ip_address.h"
#include "pons/egress/policy.h"
#include "pons/egress/resolver_settings.h"
#include "pons/linux/loop.h"

namespace pons::egress {

struct ResolvedHost {
  std::vector<IpAddress> addresses;  // at least one; nothing is known about where they lead
  std::vector<std::string> aliases;  // the names it was followed through, for the audit
};

struct AddressChoice {
  Decision decision;
  std::vector<IpAddress> to_try;     // in order; none when refused
  std::optional<IpAddress> refused;  // the address that the decision is about
};

// Judges every address, also those that would not be tried: one that the policy does not allow
// refuses the name, because who answers with it may answer with it alone next time.
AddressChoice pick_addresses(const ResolvedHost& host, const Policy& policy,
                             const Destination& destination, std::uint16_t port);

// Resolves names for egress itself, once a policy has allowed them. Must outlive those who wait.
class Resolver {
 public:
  Resolver(linux::Loop& loop, ResolverSettings settings);

  // kNotFound when the name does not exist or has no address, kTimeout at the deadline.
  Task<Result<ResolvedHost>> resolve(HostName name, TimePoint deadline);

  // For what is asked from now on; forgets what is known.
  void adopt(ResolverSettings settings);
  std::size_t cached() const { return cache_.size(); }

 private:
  // One for all who wait for the same name: many equal questions at once would make an answer easy
  // to guess.
  struct Pending {
    explicit Pending(linux::Loop& loop) : done(loop) {}
    linux::Event done;
    Result<ResolvedHost> result = Error{};
  };
  struct Cached {
    ResolvedHost host;
    TimePoint expires_at;
  };
  Task<> look_up(HostName name, std::shared_ptr<Pending> pending);
  Task<> ask_into(HostName name, std::uint16_t type, TimePoint deadline, Result<DnsResponse>& into);
  Task<Result<DnsResponse>> ask(HostName name, std::uint16_t type, TimePoint deadline);
  void remember(const HostName& name, const ResolvedHost& host, std::uint32_t ttl_seconds);

  linux::Loop& loop_;
  std::shared_ptr<const ResolverSettings> settings_;
  std::unordered_map<HostName, Cached> cache_;
  std::unordered_map<HostName, std::shared_ptr<Pending>> pending_;
  linux::TaskGroup lookups_;  // last: its tasks use all of the above
};

}  // namespace pons::egress
