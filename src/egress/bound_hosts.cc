#include "bound_hosts.h"

#include <algorithm>

namespace pons::egress {

namespace {

void add(const BoundHosts::Credentials& credentials,
         std::map<std::string, BoundHosts::Credentials, std::less<>>& to) {
  for (const auto& credential : credentials)
    for (const vault::Binding& binding : credential->bindings) {
      BoundHosts::Credentials& bound = to[binding.host];
      if (bound.empty() || bound.back() != credential) bound.push_back(credential);
    }
}

}  // namespace

void BoundHosts::refresh() const {
  if (generation_ == vault_.generation()) return;
  now_.clear();
  former_.clear();
  add(vault_.list(), now_);
  add(vault_.former(), former_);
  generation_ = vault_.generation();
}

BoundHosts::Credentials BoundHosts::find(const ByPattern& all, const Destination& host) {
  const auto* name = std::get_if<names::HostName>(&host);
  if (name == nullptr) return {};
  Credentials found;
  for (const std::string& pattern : {name->text(), "*." + std::string(name->parent())})
    if (const auto bound = all.find(pattern); bound != all.end())
      found.insert(found.end(), bound->second.begin(), bound->second.end());
  return found;
}

BoundHosts::Credentials BoundHosts::credentials_for(const Destination& host) const {
  refresh();
  return find(now_, host);
}

bool BoundHosts::contains(const Destination& host) const {
  refresh();
  return !find(now_, host).empty() || !find(former_, host).empty();
}

bool BoundHosts::contains(const Destination& host, std::uint16_t port) const {
  refresh();
  const auto is_bound = [&](const auto& credential) {
    return vault::is_bound_to(*credential, std::get<names::HostName>(host).text(), port);
  };
  return std::ranges::any_of(find(now_, host), is_bound) ||
         std::ranges::any_of(find(former_, host), is_bound);
}

std::set<BoundHosts::Pattern> BoundHosts::patterns() const {
  std::set<Pattern> all;
  for (const auto* credentials : {&vault_.list(), &vault_.former()})
    for (const auto& credential : *credentials)
      for (const vault::Binding& binding : credential->bindings)
        for (const std::uint16_t port : binding.ports) all.emplace(binding.host, port);
  return all;
}

}  // namespace pons::egress
