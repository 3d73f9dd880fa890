#include "bound_hosts.h"

#include <algorithm>

namespace pons::egress {

const std::map<std::string, BoundHosts::Credentials, std::less<>>& BoundHosts::current() const {
  if (generation_ == vault_.generation()) return by_pattern_;
  by_pattern_.clear();
  for (const auto& credential : vault_.list())
    for (const vault::Binding& binding : credential->bindings) {
      Credentials& bound = by_pattern_[binding.host];
      if (bound.empty() || bound.back() != credential) bound.push_back(credential);
    }
  generation_ = vault_.generation();
  return by_pattern_;
}

BoundHosts::Credentials BoundHosts::credentials_for(const Destination& host) const {
  const auto* name = std::get_if<names::HostName>(&host);
  if (name == nullptr) return {};
  Credentials all;
  for (const std::string& pattern : {name->text(), "*." + std::string(name->parent())})
    if (const auto found = current().find(pattern); found != current().end())
      all.insert(all.end(), found->second.begin(), found->second.end());
  return all;
}

bool BoundHosts::contains(const Destination& host, std::uint16_t port) const {
  return std::ranges::any_of(credentials_for(host), [&](const auto& credential) {
    return vault::is_bound_to(*credential, std::get<names::HostName>(host).text(), port);
  });
}

std::set<BoundHosts::Pattern> BoundHosts::patterns() const {
  std::set<Pattern> all;
  for (const auto& credential : vault_.list())
    for (const vault::Binding& binding : credential->bindings)
      for (const std::uint16_t port : binding.ports) all.emplace(binding.host, port);
  return all;
}

}  // namespace pons::egress
