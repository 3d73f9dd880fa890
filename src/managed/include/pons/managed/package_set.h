#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/json.h"
#include "pons/base/result.h"

namespace pons::managed {

// Who brings packages, by the API's words, in the order in which they are asked: what apt brings,
// the others may need.
inline constexpr std::string_view kPackageManagers[] = {"apt", "npm", "pip", "cargo", "gem", "go"};

// A package as its manager writes it, with a version where one is wanted: "jq=1.6-2",
// "@scope/name@^1.2", "pandas[excel]>=2,<3", "ripgrep@14.1.0", "rails:7.1.0",
// "example.org/tool/cmd@v1.2". No option, no path, no address, nothing that a shell would read.
bool is_package(std::string_view manager, std::string_view text);

// What a template is to be made of.
struct PackageSet {
  struct Part {
    std::string manager;
    std::vector<std::string> names;  // sorted, each once
    bool operator==(const Part&) const = default;
  };
  std::string base;         // the template that it stands on
  std::vector<Part> parts;  // in the order of kPackageManagers; none is empty

  std::string recipe() const;  // the same for the same content
  std::string digest() const;  // of the recipe
  bool operator==(const PackageSet&) const = default;
};

Result<PackageSet> read_recipe(std::string_view recipe);
// Of an environment as the API shows it; none: it has no packages, or its tools run elsewhere.
std::optional<PackageSet> package_set_of(const Json& environment);

// The member of an environment's metadata that names what its machines start from.
inline constexpr const char* kTemplateKey = "pons.template";
// What the machines of an environment start from: as its metadata says, with its packages.
std::string template_of(const Json& environment);

// A template that was made of a set is named by the set's digest, and by nobody else.
std::string package_template(std::string_view digest);
// The digest in such a name; empty: it is another one's.
std::string_view digest_in(std::string_view template_name);

}  // namespace pons::managed
