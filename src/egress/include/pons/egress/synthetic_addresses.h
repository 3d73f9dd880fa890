#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/egress/minute_budget.h"
#include "pons/egress/policy.h"
#include "pons/names/host_name.h"
#include "pons/names/ip_address.h"

namespace pons::egress {

struct SyntheticOptions {
  std::size_t names_max = 4096;
  // A name that was not asked for, dialled or connected for this long may lose its address.
  Duration quarantine = std::chrono::minutes(10);
  // New names a minute that a wildcard covers, or that only mode `public` allows. The rest is
  // bounded by the rules themselves.
  std::uint32_t wildcard_names_per_minute = 60;
  std::uint32_t public_names_per_minute = 600;
  // A longer label under a wildcard is data, not a name.
  std::size_t wildcard_label_bytes_max = 40;
  // Where in the range the addresses begin.
  std::uint32_t begin_at = 0;
};

// The addresses one sandbox gets for names: an address belongs to one name, so that the destination
// of a connection says which name was meant. One object per sandbox; the same address means
// something else in another one.
class SyntheticAddresses {
 public:
  explicit SyntheticAddresses(SyntheticOptions options = {});

  struct Addresses {
    names::IpAddress v4;
    names::IpAddress v6;
  };
  // The name's addresses, new ones if need be. An error (kLimit) when too many names are asked for.
  // Also for a name that did not come by DNS: asking here is what keeps made-up names few.
  Result<Addresses> assign(const names::HostName& name, Breadth breadth, TimePoint now);

  // The name that has this address.
  std::optional<names::HostName> find(const names::IpAddress& address) const;
  static bool is_synthetic(const names::IpAddress& address);

  // While a copy of it lives, the name keeps its addresses. Nothing for a name that has none.
  using Hold = std::shared_ptr<const void>;
  Hold hold(const names::HostName& name, TimePoint now);

  std::size_t size() const { return entries_.size(); }
  // True when it has a name of which that is true.
  template <class Is>
  bool has_name(const Is& is) const {
    return std::ranges::any_of(entries_, [&](const Entry& entry) { return is(entry.name); });
  }

 private:
  struct Entry {
    names::HostName name;
    std::uint32_t index;
    TimePoint last_use;
    std::shared_ptr<char> in_use;
  };
  using Entries = std::list<Entry>;
  Result<void> admit(const names::HostName& name, Breadth breadth, TimePoint now);
  bool recycle_one(TimePoint now);
  std::uint32_t next_free_index();
  void touch(Entries::iterator entry, TimePoint now);

  SyntheticOptions options_;
  Entries entries_;  // least recently used first
  std::unordered_map<names::HostName, Entries::iterator> by_name_;
  std::unordered_map<std::uint32_t, Entries::iterator> by_index_;
  std::uint32_t last_index_ = 0;
  MinuteBudget wildcard_budget_;
  MinuteBudget public_budget_;
};

}  // namespace pons::egress
