#include "public_suffix.h"

#include <libpsl.h>

#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "embedded_data.h"
#include "pons/base/check.h"
#include "pons/base/json.h"

namespace pons::egress {
namespace {

std::set<std::string, std::less<>> read_additions() {
  const auto list = parse_json(shared_suffixes_json());
  CHECK(list.has_value());
  std::set<std::string, std::less<>> names;
  for (const Json& name : *list) names.insert(name.get<std::string>());
  return names;
}

}  // namespace

bool is_shared_suffix(std::string_view name) {
  static const auto kAdditions = read_additions();
  if (kAdditions.contains(name)) return true;
  // A list that is not there must not turn every suffix into an ordinary name.
  const psl_ctx_t* list = psl_builtin();
  if (list == nullptr) return true;
  const std::string suffix(name);
  // A rule like *.compute.example makes the children suffixes, and not their parent.
  return psl_is_public_suffix2(list, suffix.c_str(), PSL_TYPE_ANY) != 0 ||
         psl_is_public_suffix2(list, ("any-child." + suffix).c_str(), PSL_TYPE_ANY) != 0;
}

}  // namespace pons::egress
