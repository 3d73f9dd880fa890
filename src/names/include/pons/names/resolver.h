#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"
#include "pons/names/dns_message.h"
#include "pons/names/ip_address.h"
#include "pons/names/resolver_settings.h"

namespace pons::names {

struct ResolvedHost {
  std::vector<IpAddress> addresses;  // at least one; nothing is known about where they lead
  std::vector<std::string> aliases;  // the names it was followed through, for the audit
};

// Resolves names of hosts that may be asked for. Must outlive those who wait.
class Resolver {
 public:
  Resolver(linux::Loop& loop, ResolverSettings settings);

  // Who asks, where there are many: none of them takes so many lookups that others get none.
  using Asker = std::uint64_t;
  static constexpr Asker kOurselves = 0;

  // kNotFound when the name does not exist or has no address, kTimeout at the deadline, kLimit when
  // too many are under way.
  Task<Result<ResolvedHost>> resolve(HostName name, TimePoint deadline, Asker asker = kOurselves);

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
  bool has_room_for(Asker asker) const;
  Task<> look_up(HostName name, Asker asker, std::shared_ptr<Pending> pending);
  Task<> ask_into(HostName name, std::uint16_t type, TimePoint deadline, Result<DnsResponse>& into);
  Task<Result<DnsResponse>> ask(HostName name, std::uint16_t type, TimePoint deadline);
  void remember(const HostName& name, const ResolvedHost& host, std::uint32_t ttl_seconds);

  linux::Loop& loop_;
  std::shared_ptr<const ResolverSettings> settings_;
  std::unordered_map<HostName, Cached> cache_;
  std::unordered_map<HostName, std::shared_ptr<Pending>> pending_;
  std::unordered_map<Asker, std::size_t> lookups_of_;  // none of ourselves
  linux::TaskGroup lookups_;                           // last: its tasks use all of the above
};

}  // namespace pons::names
