#include "vault_needles.h"

namespace pons::egress {

Result<std::shared_ptr<const scan::NeedleSet>> VaultNeedles::current() {
  if (generation_ == vault_.generation()) return set_;
  std::vector<Owner> owners;
  std::vector<scan::Needle> needles;
  const auto credentials = vault_.list();
  for (const auto& credential : credentials) {
    if (credential->scrub == vault::Scrub::kOff) continue;
    for (const Secret* value : {&credential->value, &credential->previous}) {
      if (value->size() < scan::kNeedleBytesMin) continue;
      needles.push_back({.id = static_cast<std::uint32_t>(owners.size()), .text = value->reveal()});
      owners.push_back({credential, value->size()});
    }
  }
  set_ = needles.empty() ? nullptr : TRY(scan::NeedleSet::create(needles));
  owners_ = std::make_shared<const std::vector<Owner>>(std::move(owners));
  generation_ = vault_.generation();
  return set_;
}

}  // namespace pons::egress
