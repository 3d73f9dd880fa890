#pragma once

#include <map>
#include <string>
#include <vector>

#include "pons/base/json.h"

namespace pons::vault {

// What data/services.json says; read once.
struct Services {
  std::map<std::string, std::string, std::less<>> presets;  // bindings as JSON text, by name
  // By the host or the domain above it; "any" for all.
  using NamesByHost = std::map<std::string, std::vector<std::string>, std::less<>>;
  NamesByHost credential_parameters;  // names under which a query or a body carries a credential
  NamesByHost query_parameters;       // and those under which a query alone does
  std::vector<std::string> prefixes;  // of values, longest first
  // Names of hosts directly below are given out to anyone, though they are no public suffixes; and
  // those of clouds, where the same holds for whatever is below.
  std::vector<std::string> shared_suffixes;
  std::vector<std::string> shared_domains;
  std::vector<std::string> placeholder_words;
};

const Services& services();

}  // namespace pons::vault
