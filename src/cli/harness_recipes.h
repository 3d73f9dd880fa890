#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "pons/harness/recipe.h"
#include "pons/sandbox/provider.h"

// What the commands about harnesses share.

namespace pons::cli {

// What one call of the command line may hold on to.
struct HarnessWords {
  std::string name;
  std::string recipes;  // a file
  bool again = false;
  std::string story;
  bool with_long = false;
};

// Kind of the templates that are made of one.
inline constexpr std::string_view kHarnessTemplates = "harness";

// Those of the command line come before those of the configuration, and these before ours of the
// same name.
Result<std::vector<harness::Recipe>> all_recipes(const Common& common, const HarnessWords& words);
Result<harness::Recipe> find_recipe(const Common& common, const HarnessWords& words);
// Its text where it is the operator's own; empty: it is ours.
Result<std::string> find_own_recipe(const Common& common, const HarnessWords& words);

// Its two templates, as far as they are there.
struct InstalledHarness {
  std::optional<sandbox::TemplateInfo> brain;
  std::optional<sandbox::TemplateInfo> packages;

  bool is_whole() const { return brain && packages; }
  bool is_as_tested(const harness::Recipe& recipe) const;
  std::optional<std::string> version() const;
};
InstalledHarness find_installed(const harness::Recipe& recipe,
                                const std::vector<sandbox::TemplateInfo>& known);

// `pons harness test`.
Result<int> test_harness(const std::string& state_dir, const Common& common,
                         const HarnessWords& words);

}  // namespace pons::cli
