#pragma once

#include <map>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/managed/package_set.h"

// What is done in a sandbox to put packages into it. Names are arguments of the managers and
// nothing else: no shell reads them.

namespace pons::brain {

struct PackageStep {
  std::string name;  // of the manager; the last one is "settle"
  std::vector<std::string> argv;
};

// In their order, as root. A step that has no manager in the template says so and ends with
// kNoManager.
std::vector<PackageStep> package_steps(const managed::PackageSet& set);
inline constexpr int kNoManager = 97;

// For the steps; `registries` by the name of the manager.
std::map<std::string, std::string> step_variables(
    const std::map<std::string, std::string>& registries);

// Where the hosts are that the managers of this machine get packages from, and nothing else. An
// error: nobody knows the hosts of one of them.
Result<std::string> package_policy(const managed::PackageSet& set);

// Variables of the template with which programs and modules are found; `base` has those of the
// template below.
std::map<std::string, std::string> package_variables(const managed::PackageSet& set,
                                                     std::map<std::string, std::string> base);

}  // namespace pons::brain
