#include "withheld_secrets.h"

#include <algorithm>
#include <set>

#include "attached_sandbox.h"
#include "pons/vault/credential.h"

namespace pons::egress {

namespace {

// What is looked for costs many times its bytes.
constexpr std::size_t kSetBytesMax = 512 * 1024;
constexpr std::size_t kProjectsMax =
    64;  // at a time; others are made again when they are asked for

std::shared_ptr<const Secret> value_of(const vault::ProjectSecrets::Found& secret) {
  return {secret, &secret->value};
}

// It is one of a list when it is told.
std::string name_of(const vault::ProjectSecret& secret) {
  std::string name = "e2b.secrets." + secret.name;
  std::ranges::replace(name, ',', '_');
  return name;
}

}  // namespace

Result<WithheldSet> make_withheld_set(std::vector<WithheldSecret> secrets) {
  std::erase_if(secrets, [](const WithheldSecret& secret) {
    return !vault::check_value(secret.value->reveal());
  });
  std::ranges::sort(secrets, {}, [](const auto& secret) { return secret.value->size(); });
  std::vector<scan::Needle> needles;
  std::vector<WithheldSecret> kept;
  std::set<std::string_view> known;  // two names may have the same value
  std::size_t bytes = 0;
  for (WithheldSecret& secret : secrets) {
    if (!known.insert(secret.value->reveal()).second) continue;
    bytes += secret.value->size();
    if (bytes > kSetBytesMax || kept.size() == scan::kNeedlesMax) break;
    needles.push_back(
        {.id = static_cast<std::uint32_t>(kept.size()), .text = secret.value->reveal()});
    kept.push_back(std::move(secret));
  }
  WithheldSet made;
  if (!needles.empty()) made.set = TRY(scan::NeedleSet::create(needles));
  made.secrets = std::make_shared<const std::vector<WithheldSecret>>(std::move(kept));
  return made;
}

Result<WithheldSet> WithheldSecrets::of(const vault::ProjectSecrets& secrets,
                                        const std::string& project) {
  if (generation_ == secrets.generation())
    if (const auto known = projects_.find(project); known != projects_.end())
      return known->second.made;
  if (generation_ != secrets.generation())
    std::erase_if(projects_, [&](const auto& known) {
      return known.second.made_of != secrets.list(known.first);
    });
  generation_ = secrets.generation();
  if (const auto known = projects_.find(project); known != projects_.end())
    return known->second.made;
  Project made{.made_of = secrets.list(project), .made = {}};
  if (made.made_of.empty()) return WithheldSet{};
  std::vector<WithheldSecret> all;
  for (const auto& secret : made.made_of)
    all.push_back({.name = name_of(*secret), .value = value_of(secret)});
  made.made = TRY(make_withheld_set(std::move(all)));
  if (projects_.size() >= kProjectsMax) projects_.clear();
  return projects_.emplace(project, std::move(made)).first->second.made;
}

Result<std::vector<WithheldSet>> withheld_from(const Boundary& boundary,
                                               const AttachedSandbox& sandbox) {
  std::vector<WithheldSet> all;
  const auto add = [&](WithheldSet set) {
    if (set.set != nullptr) all.push_back(std::move(set));
  };
  if (const std::string& project = sandbox.policy->project();
      boundary.project_secrets != nullptr && !project.empty())
    add(TRY(boundary.withheld->of(*boundary.project_secrets, project)));
  add(TRY(sandbox.rule_secrets()));
  return all;
}

}  // namespace pons::egress
