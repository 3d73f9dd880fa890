#include "pons/vault/shared_suffix.h"

#include <algorithm>
#include <string>

#include <libpsl.h>

#include "services.h"

namespace pons::vault {

namespace {

bool is_at_or_below(std::string_view name, std::string_view domain) {
  if (!name.ends_with(domain)) return false;
  return name.size() == domain.size() || name[name.size() - domain.size() - 1] == '.';
}

}  // namespace

bool is_shared_suffix(std::string_view name) {
  const Services& known = services();
  if (std::ranges::find(known.shared_suffixes, name) != known.shared_suffixes.end()) return true;
  if (std::ranges::any_of(known.shared_domains, [name](const std::string& domain) {
        return is_at_or_below(name, domain);
      }))
    return true;
  // A list that is not there must not turn every suffix into an ordinary name.
  const psl_ctx_t* list = psl_builtin();
  if (list == nullptr) return true;
  const std::string suffix(name);
  // A rule like *.compute.example makes the children suffixes, and not their parent.
  return psl_is_public_suffix(list, suffix.c_str()) != 0 ||
         psl_is_public_suffix(list, ("any-child." + suffix).c_str()) != 0;
}

}  // namespace pons::vault
