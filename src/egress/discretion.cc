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
  const auto secrets = boundary.secrets.current();
  const auto stubs = sandbox.stubs(boundary.vault);
  if (!secrets || !stubs) return std::string(kWithheld);
  scan::NeedleSets sets;
  for (const auto& set : {*secrets, *stubs})
    if (set != nullptr) sets.push_back(set);
  if (!sets.empty() && scan::scan_text(sets, text)) return std::string(kWithheld);
  const auto name = names::HostName::parse(text);
  const bool told =
      name && (tells_secret(boundary, *name) ||
               std::ranges::any_of(sandbox.grants(boundary.vault), [&](const Grant& grant) {
                 return contains_ignoring_case(text, grant.stub);
               }));
  return std::string(told ? kWithheld : text);
}

bool tells_secret(const Boundary& boundary, const names::HostName& name) {
  std::string letters = name.text();
  std::erase(letters, '.');  // a secret may be spread over labels
  return tells_secret(boundary, letters);
}

bool tells_secret(const Boundary& boundary, std::string_view name) {
  if (name.size() < scan::kNeedleBytesMin) return false;
  return std::ranges::any_of(boundary.vault.list(), [&](const auto& credential) {
    return std::ranges::any_of(
        std::initializer_list<const Secret*>{&credential->value, &credential->previous},
        [&](const Secret* value) {
          return value->size() >= scan::kNeedleBytesMin &&
                 contains_ignoring_case(name, value->reveal());
        });
  });
}

}  // namespace pons::egress
