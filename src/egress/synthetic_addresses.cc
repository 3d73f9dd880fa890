#include "pons/egress/synthetic_addresses.h"

#include <algorithm>
#include <array>

#include "pons/base/check.h"

namespace pons::egress {
namespace {

// 198.18.0.0/15 and the /48 that spells the product's name; the low bits are the same index.
constexpr std::uint32_t kV4Base = 0xC612'0000;
constexpr std::uint32_t kIndexCount = 1 << 17;
constexpr std::array<std::uint8_t, 12> kV6Prefix = {0xFD, 0x50, 0x6F, 0x6E, 0x73, 0};

SyntheticAddresses::Addresses addresses_of(std::uint32_t index) {
  names::IpAddress::Bytes v6{};
  std::ranges::copy(kV6Prefix, v6.begin());
  for (std::size_t i = 0; i < 4; ++i) v6[12 + i] = static_cast<std::uint8_t>(index >> (24 - 8 * i));
  return {.v4 = names::IpAddress::from_v4(kV4Base + index), .v6 = names::IpAddress::from_v6(v6)};
}

std::optional<std::uint32_t> index_of(const names::IpAddress& address) {
  const names::IpAddress plain = address.embedded();
  if (plain.is_v4()) {
    const std::uint32_t index = plain.v4_bits() - kV4Base;
    return index < kIndexCount ? std::optional(index) : std::nullopt;
  }
  if (!std::ranges::equal(plain.bytes().first(kV6Prefix.size()), kV6Prefix)) return std::nullopt;
  std::uint32_t index = 0;
  for (const std::uint8_t byte : plain.bytes().subspan(kV6Prefix.size())) index = index << 8 | byte;
  return index < kIndexCount ? std::optional(index) : std::nullopt;
}

// Programs take addresses that end in 0 or 255 for a network and its broadcast.
bool is_usable(std::uint32_t index) {
  return (index & 0xFF) != 0 && (index & 0xFF) != 0xFF;
}

}  // namespace

SyntheticAddresses::SyntheticAddresses(SyntheticOptions options)
    : options_(options), last_index_(options.begin_at % kIndexCount) {}

Result<void> SyntheticAddresses::admit(const names::HostName& name, Breadth breadth,
                                       TimePoint now) {
  const auto refuse = [](const char* why) {
    return make_error(ErrorCode::kLimit, "give a name an address", why);
  };
  if (breadth == Breadth::kOneLabel) {
    if (name.first_label().size() > options_.wildcard_label_bytes_max)
      return refuse("the label that stands for a wildcard is too long: let a rule name the host");
    if (!wildcard_budget_.take(options_.wildcard_names_per_minute, now))
      return refuse("too many new names under a wildcard within a minute");
  }
  if (breadth == Breadth::kAnything && !public_budget_.take(options_.public_names_per_minute, now))
    return refuse("too many new names within a minute");
  if (entries_.size() >= options_.names_max && !recycle_one(now))
    return refuse("all addresses for names are in use: wait some minutes");
  return {};
}

Result<SyntheticAddresses::Addresses> SyntheticAddresses::assign(const names::HostName& name,
                                                                 Breadth breadth, TimePoint now) {
  if (const auto known = by_name_.find(name); known != by_name_.end()) {
    touch(known->second, now);
    return addresses_of(known->second->index);
  }
  TRY_VOID(admit(name, breadth, now));
  const std::uint32_t index = next_free_index();
  entries_.push_back(
      {.name = name, .index = index, .last_use = now, .in_use = std::make_shared<char>()});
  const auto entry = std::prev(entries_.end());
  by_name_.emplace(name, entry);
  by_index_.emplace(index, entry);
  return addresses_of(index);
}

std::optional<names::HostName> SyntheticAddresses::find(const names::IpAddress& address) const {
  const auto index = index_of(address);
  if (!index) return std::nullopt;
  const auto found = by_index_.find(*index);
  if (found == by_index_.end()) return std::nullopt;
  return found->second->name;
}

bool SyntheticAddresses::is_synthetic(const names::IpAddress& address) {
  return names::classify(address) == names::AddressClass::kBenchmark;
}

SyntheticAddresses::Hold SyntheticAddresses::hold(const names::HostName& name, TimePoint now) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  touch(found->second, now);
  return found->second->in_use;
}

// Entries are in order of their last use: the first one that is too young ends the search.
bool SyntheticAddresses::recycle_one(TimePoint now) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->last_use + options_.quarantine > now) return false;
    if (entry->in_use.use_count() > 1) continue;
    by_name_.erase(entry->name);
    by_index_.erase(entry->index);
    entries_.erase(entry);
    return true;
  }
  return false;
}

// Goes around the whole range before an address serves again.
std::uint32_t SyntheticAddresses::next_free_index() {
  for (std::uint32_t tried = 0; tried < kIndexCount; ++tried) {
    last_index_ = (last_index_ + 1) % kIndexCount;
    if (is_usable(last_index_) && !by_index_.contains(last_index_)) return last_index_;
  }
  CHECK(false);  // names_max is far below the size of the range
  return 0;
}

void SyntheticAddresses::touch(Entries::iterator entry, TimePoint now) {
  entry->last_use = now;
  entries_.splice(entries_.end(), entries_, entry);
}

}  // namespace pons::egress
