#include "harness_recipes.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "agent_settings.h"
#include "pons/harness/installation.h"
#include "pons/linux/fd.h"

namespace pons::cli {

namespace {

using harness::Recipe;

constexpr std::size_t kRecipesBytesMax = 1 << 20;

// Adds those whose names nobody has taken yet.
void add_unknown(std::vector<Recipe>& recipes, const std::vector<Recipe>& more) {
  for (const Recipe& recipe : more)
    if (std::ranges::find(recipes, recipe.name, &Recipe::name) == recipes.end())
      recipes.push_back(recipe);
}

Result<std::string> configured_recipes(const Common& common) {
  const auto loaded = load_config(common);
  if (!loaded)
    return make_error(ErrorCode::kInvalid, "find harness", "the configuration cannot be used");
  return own_recipes(loaded->config);
}

}  // namespace

Result<std::vector<Recipe>> all_recipes(const Common& common, const HarnessWords& words) {
  std::vector<Recipe> recipes;
  if (!words.recipes.empty()) {
    const std::string text = TRY(linux::read_file(words.recipes, kRecipesBytesMax));
    recipes = TRY(harness::read_recipes(text, words.recipes));
  }
  const std::string configured = TRY(configured_recipes(common));
  add_unknown(recipes, TRY(harness::read_recipes(configured, "harnesses")));
  add_unknown(recipes, harness::known_recipes());
  std::ranges::sort(recipes, {}, &Recipe::name);
  return recipes;
}

Result<Recipe> find_recipe(const Common& common, const HarnessWords& words) {
  std::vector<std::string> names;
  for (Recipe& recipe : TRY(all_recipes(common, words))) {
    if (recipe.name == words.name) return std::move(recipe);
    names.push_back(recipe.name);
  }
  return make_error(
      ErrorCode::kNotFound, "find harness",
      fmt::format("nobody knows \"{}\"; there are {}", words.name, fmt::join(names, ", ")));
}

Result<std::string> find_own_recipe(const Common& common, const HarnessWords& words) {
  std::vector<std::string> texts;
  if (!words.recipes.empty())
    texts.push_back(TRY(linux::read_file(words.recipes, kRecipesBytesMax)));
  texts.push_back(TRY(configured_recipes(common)));
  for (const std::string& text : texts) {
    const Json all = TRY(parse_json(text));
    if (const auto found = all.find(words.name); found != all.end()) return dump_json(*found);
  }
  return std::string();
}

bool InstalledHarness::is_as_tested(const Recipe& recipe) const {
  const std::string tested = harness::describe_installation(recipe);
  return is_whole() && brain->source == tested && packages->source == tested;
}

std::optional<std::string> InstalledHarness::version() const {
  return is_whole() ? harness::find_version(brain->source) : std::nullopt;
}

InstalledHarness find_installed(const Recipe& recipe,
                                const std::vector<sandbox::TemplateInfo>& known) {
  InstalledHarness installed;
  for (const sandbox::TemplateInfo& info : known) {
    if (info.kind != kHarnessTemplates) continue;
    if (info.name == harness::brain_template(recipe)) installed.brain = info;
    if (info.name == harness::packages_template(recipe)) installed.packages = info;
  }
  return installed;
}

}  // namespace pons::cli
