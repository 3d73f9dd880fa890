#include "vault_needles.h"

#include <set>

namespace pons::egress {

Result<std::shared_ptr<const scan::NeedleSet>> VaultNeedles::current() {
  if (generation_ == vault_.generation()) return set_;
  std::vector<Owner> owners;
  std::vector<scan::Needle> needles;
  std::set<std::string_view> known;  // one may have been replaced by the same value
  const auto add = [&](const std::shared_ptr<const vault::Credential>& credential,
                       const Secret& value) {
    if (credential->scrub == vault::Scrub::kOff || value.size() < scan::kNeedleBytesMin) return;
    needles.push_back({.id = static_cast<std::uint32_t>(owners.size()), .text = value.reveal()});
    owners.push_back({.credential = credential, .value = &value});
    known.insert(value.reveal());
  };
  for (const auto& credential : vault_.list())
    for (const Secret* value : {&credential->value, &credential->previous}) add(credential, *value);
  for (const auto& credential : vault_.former())
    for (const Secret* value : {&credential->value, &credential->previous})
      if (!known.contains(value->reveal())) add(credential, *value);
  set_ = needles.empty() ? nullptr : TRY(scan::NeedleSet::create(needles));
  owners_ = std::make_shared<const std::vector<Owner>>(std::move(owners));
  generation_ = vault_.generation();
  return set_;
}

}  // namespace pons::egress
