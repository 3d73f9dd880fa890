#include "pons/names/resolver.h"

#include <algorithm>

#include <fmt/format.h>

#include "dns_client.h"

namespace pons::names {
namespace {

constexpr const char* kStep = "resolve host name";
constexpr std::size_t kLookupsMax = 256;
constexpr std::size_t kLookupsOfOneMax = 32;
constexpr std::size_t kLookupsAtAllMax = 1024;
constexpr std::size_t kCachedMax = 1024;
constexpr std::uint32_t kTtlSecondsMax = 300;
constexpr std::size_t kAliasesMax = 16;
constexpr std::size_t kAddressesMax = 32;
constexpr Duration kLookupTimeMax = std::chrono::seconds(30);

Error not_found(const HostName& name, const char* why) {
  return make_error(ErrorCode::kNotFound, kStep, fmt::format("{} {}", name.text(), why));
}

// What one answer says, with its aliases followed inside it.
struct Reading {
  std::vector<IpAddress> addresses;
  std::vector<std::string> aliases;
  std::uint32_t ttl_seconds = kTtlSecondsMax;
};

const DnsRecord* find_alias(const DnsResponse& response, const std::string& name) {
  const auto found = std::ranges::find_if(response.answers, [&](const DnsRecord& record) {
    return record.type == kDnsCname && record.name == name;
  });
  return found == response.answers.end() ? nullptr : &*found;
}

Result<Reading> read_answer(const DnsResponse& response, const HostName& name, std::uint16_t type) {
  if (response.code == DnsCode::kNoSuchName) return not_found(name, "does not exist");
  Reading reading;
  std::string current = name.text();
  while (const DnsRecord* alias = find_alias(response, current)) {
    if (reading.aliases.size() >= kAliasesMax)
      return not_found(name, "leads through a loop of aliases");
    current = alias->data;
    reading.aliases.push_back(current);
    reading.ttl_seconds = std::min(reading.ttl_seconds, alias->ttl_seconds);
  }
  for (const DnsRecord& record : response.answers) {
    if (record.type != type || record.name != current) continue;
    const auto address = IpAddress::from_wire(
        {reinterpret_cast<const std::uint8_t*>(record.data.data()), record.data.size()});
    if (!address || address->is_v4() != (type == kDnsA) ||
        reading.addresses.size() >= kAddressesMax)
      return make_error(ErrorCode::kInvalid, kStep, "the answer holds no proper addresses");
    reading.addresses.push_back(*address);
    reading.ttl_seconds = std::min(reading.ttl_seconds, record.ttl_seconds);
  }
  if (reading.addresses.empty()) return not_found(name, "has no address");
  return reading;
}

void append(const Reading& reading, Reading& all) {
  all.addresses.insert(all.addresses.end(), reading.addresses.begin(), reading.addresses.end());
  for (const std::string& alias : reading.aliases)
    if (std::ranges::find(all.aliases, alias) == all.aliases.end()) all.aliases.push_back(alias);
  all.ttl_seconds = std::min(all.ttl_seconds, reading.ttl_seconds);
}

// Either family is enough. Of two failures, the one that says more than "no address" is told.
Result<Reading> combine(const Result<DnsResponse>& v6, const Result<DnsResponse>& v4,
                        const HostName& name) {
  const auto read = [&](const Result<DnsResponse>& response,
                        std::uint16_t type) -> Result<Reading> {
    if (!response) return response.error();
    return read_answer(*response, name, type);
  };
  const auto from_v6 = read(v6, kDnsAaaa);
  const auto from_v4 = read(v4, kDnsA);
  if (!from_v6 && !from_v4)
    return from_v4.error().code == ErrorCode::kNotFound ? from_v6.error() : from_v4.error();
  Reading all;
  if (from_v6) append(*from_v6, all);
  if (from_v4) append(*from_v4, all);
  return all;
}

bool is_final(const DnsResponse& response) {
  return response.code == DnsCode::kNoError || response.code == DnsCode::kNoSuchName;
}

}  // namespace

Resolver::Resolver(linux::Loop& loop, ResolverSettings settings)
    : loop_(loop),
      settings_(std::make_shared<const ResolverSettings>(std::move(settings))),
      lookups_(loop) {}

void Resolver::adopt(ResolverSettings settings) {
  settings_ = std::make_shared<const ResolverSettings>(std::move(settings));
  cache_.clear();
}

// Nobody's second lookup takes the place of somebody else's first.
bool Resolver::has_room_for(Asker asker) const {
  const auto own = lookups_of_.find(asker);
  if (own == lookups_of_.end()) return lookups_.size() < kLookupsAtAllMax;
  return own->second < kLookupsOfOneMax && lookups_.size() < kLookupsMax;
}

Task<Result<ResolvedHost>> Resolver::resolve(HostName name, TimePoint deadline, Asker asker) {
  if (const auto fixed = settings_->hosts.find(name); fixed != settings_->hosts.end())
    co_return ResolvedHost{.addresses = fixed->second};
  if (const auto known = cache_.find(name);
      known != cache_.end() && known->second.expires_at > loop_.now())
    co_return known->second.host;

  auto& slot = pending_[name];
  std::shared_ptr<Pending> pending = slot;
  if (!pending) {
    if (!has_room_for(asker)) {
      pending_.erase(name);
      co_return make_error(ErrorCode::kLimit, kStep, "too many names are being resolved");
    }
    pending = slot = std::make_shared<Pending>(loop_);
    if (asker != kOurselves) ++lookups_of_[asker];
    lookups_.spawn(look_up(name, asker, pending));
  }
  if (co_await pending->done.wait(deadline) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, kStep,
                         fmt::format("no answer about {} in time", name.text()));
  co_return pending->result;
}

Task<> Resolver::look_up(HostName name, Asker asker, std::shared_ptr<Pending> pending) {
  const TimePoint deadline = loop_.now() + kLookupTimeMax;
  Result<DnsResponse> v6 = Error{};
  Result<DnsResponse> v4 = Error{};
  {
    linux::TaskGroup both(loop_);
    both.spawn(ask_into(name, kDnsAaaa, deadline, v6));
    both.spawn(ask_into(name, kDnsA, deadline, v4));
    co_await both.wait_until_empty(kNever);  // each ends at its deadline
  }
  auto reading = combine(v6, v4, name);
  if (reading) {
    ResolvedHost host{.addresses = std::move(reading->addresses),
                      .aliases = std::move(reading->aliases)};
    remember(name, host, reading->ttl_seconds);
    pending->result = std::move(host);
  } else {
    pending->result = std::move(reading).error();
  }
  pending_.erase(name);
  if (const auto own = lookups_of_.find(asker); own != lookups_of_.end() && --own->second == 0)
    lookups_of_.erase(own);
  pending->done.set();
}

Task<> Resolver::ask_into(HostName name, std::uint16_t type, TimePoint deadline,
                          Result<DnsResponse>& into) {
  into = co_await ask(std::move(name), type, deadline);
}

Task<Result<DnsResponse>> Resolver::ask(HostName name, std::uint16_t type, TimePoint deadline) {
  const auto settings = settings_;
  Error last = make_error(ErrorCode::kUnavailable, kStep, "no name server is configured");
  for (unsigned attempt = 0; attempt < settings->attempts; ++attempt) {
    for (const Nameserver& server : settings->nameservers) {
      if (loop_.now() >= deadline) co_return last;
      const TimePoint until = std::min(deadline, loop_.now() + settings->attempt_time);
      auto response = co_await ask_nameserver(loop_, server, name, type, until);
      if (response && is_final(*response)) co_return response;
      last = response ? make_error(ErrorCode::kUnavailable, kStep,
                                   fmt::format("the name server answers with error {}",
                                               static_cast<int>(response->code)))
                      : std::move(response).error();
    }
  }
  co_return last;
}

void Resolver::remember(const HostName& name, const ResolvedHost& host, std::uint32_t ttl_seconds) {
  if (ttl_seconds == 0) return;
  if (cache_.size() >= kCachedMax) {
    std::erase_if(cache_,
                  [this](const auto& entry) { return entry.second.expires_at <= loop_.now(); });
    if (cache_.size() >= kCachedMax) cache_.erase(cache_.begin());
  }
  cache_.insert_or_assign(
      name, Cached{.host = host, .expires_at = loop_.now() + std::chrono::seconds(ttl_seconds)});
}

}  // namespace pons::names
