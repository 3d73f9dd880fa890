#pragma once

#include <map>
#include <string>
#include <vector>

#include "pons/base/json.h"

namespace pons::vault {

// What data/services.json says; read once.
struct Services {
  std::map<std::string, std::string, std::less<>> presets;  // bindings as JSON text, by name
  std::vector<std::string> prefixes;                        // of values, longest first
  std::vector<std::string> shared_suffixes;  // hosts below belong to strangers; not all are public
                                             // suffixes
  std::vector<std::string> placeholder_words;
};

const Services& services();

}  // namespace pons::vault
