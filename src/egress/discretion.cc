#include "discretion.h"

#include <algorithm>

#include "pons/base/text.h"
#include "pons/scan/scanner.h"

namespace pons::egress {

namespace {

constexpr std::string_view kWithheld = "withheld";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  return !std::ranges::search(text, part, {}, lower, lower).empty();
}

}  // namespace

std::string for_the_record(const Boundary& boundary, AttachedSandbox& sandbox,
                           std::string_view text) {
  if (text.size() < scan::kNeedleBytesMin) return std::string(text);
  scan::NeedleSets sets;
  for (const VaultView& view : vaults_of(boundary, sandbox)) {
    const auto secrets = view.secrets.current();
    if (!secrets) return std::string(kWithheld);
    if (*secrets != nullptr) sets.push_back(*secrets);
  }
  const auto withheld = withheld_from(boundary, sandbox);
  if (!withheld) return std::string(kWithheld);
  for (const WithheldSet& set : *withheld) sets.push_back(set.set);
  const auto stubs = sandbox.stubs(boundary.vault);
  if (!stubs) return std::string(kWithheld);
  if (*stubs != nullptr) sets.push_back(*stubs);
  if (!sets.empty() && scan::scan_text(sets, text)) return std::string(kWithheld);
  const auto name = names::HostName::parse(text);
  const bool told =
      name && (tells_secret(boundary, sandbox, *name) ||
               std::ranges::any_of(sandbox.grants(boundary.vault), [&](const Grant& grant) {
                 return contains_ignoring_case(text, grant.stub);
               }));
  return std::string(told ? kWithheld : text);
}

bool tells_secret(const Boundary& boundary, const AttachedSandbox& sandbox,
                  const names::HostName& name) {
  std::string letters = name.text();
  std::erase(letters, '.');  // a secret may be spread over labels
  return tells_secret(boundary, sandbox, letters);
}

bool tells_secret(const Boundary& boundary, const AttachedSandbox& sandbox, std::string_view name) {
  if (name.size() < scan::kNeedleBytesMin) return false;
  const auto is_told = [name](const Secret& value) {
    return value.size() >= scan::kNeedleBytesMin && contains_ignoring_case(name, value.reveal());
  };
  const auto withheld = withheld_from(boundary, sandbox);
  if (!withheld) return true;
  for (const WithheldSet& set : *withheld)
    if (std::ranges::any_of(*set.secrets,
                            [&](const WithheldSecret& secret) { return is_told(*secret.value); }))
      return true;
  return std::ranges::any_of(vaults_of(boundary, sandbox), [&](const VaultView& view) {
    const auto tells = [&](const auto& credential) {
      return is_told(credential->value) || is_told(credential->previous);
    };
    return std::ranges::any_of(view.vault.list(), tells) ||
           std::ranges::any_of(view.vault.former(), tells);
  });
}

}  // namespace pons::egress
