#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/harness/recipe.h"

// What is installed for a harness, and where it lies. Nothing of it comes with Pons: packages are
// fetched by the machine's own npm, and known by their digests.

namespace pons::harness {

// Below the root of a sandbox; Places.directory is this with a slash before it.
inline constexpr std::string_view kInstallDirectory = "opt/harness";

// A package and its place below the directory of the installation.
struct PlacedPackage {
  Package package;
  std::string place;        // "node_modules/NAME", or below another one's
  std::uint64_t bytes = 0;  // of its archive; 0: not known
};

// {NAME: [{…}, …], …}, in the words of data/packages.json.
Result<std::map<std::string, std::vector<PlacedPackage>>> read_packages(std::string_view json,
                                                                        std::string_view from);

// All that is installed for it: what its packages need, too, for the recipes that Pons knows. One
// of an operator has exactly the packages that it names.
std::vector<PlacedPackage> packages_of(const Recipe& recipe);

// The template that is all a harness needs beside the brain, and the one that holds nothing but its
// packages, to be put on top of another.
std::string brain_template(const Recipe& recipe);
std::string packages_template(const Recipe& recipe);

// What their `source` says: name, version and packages. Anything else was not tested.
std::string describe_installation(const Recipe& recipe);
// The version out of such words, for people.
std::optional<std::string> find_version(std::string_view source);

}  // namespace pons::harness
