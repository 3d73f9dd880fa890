#include "pons/harness/recipe.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json_place.h"

// NOLINTBEGIN(readability-identifier-naming): symbols of the assembler
extern "C" const char pons_harness_recipes_begin[];
extern "C" const char pons_harness_recipes_end[];
// NOLINTEND(readability-identifier-naming)

namespace pons::harness {

namespace {

constexpr std::size_t kRecipesMax = 64;
constexpr std::size_t kEntriesMax = 256;
constexpr std::size_t kPackagesMax = 8;
constexpr std::uint64_t kMemoryMbMax = 1 << 20;

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 32 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// Below a directory, whoever wrote it.
bool is_inner_path(std::string_view text) {
  return !text.empty() && text[0] != '/' && text.find("..") == text.npos;
}

Result<std::vector<std::string>> read_texts(const JsonPlace& place) {
  TRY_VOID(place.expect_list(kEntriesMax));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < place.value.size(); ++i) texts.push_back(TRY(place.at(i).text()));
  return texts;
}

// One text, or its lines.
Result<std::string> read_lines(const JsonPlace& place) {
  if (!place.value.is_array()) return place.text();
  std::string text;
  for (const std::string& line : TRY(read_texts(place))) text += line + '\n';
  return text;
}

Result<std::map<std::string, std::string>> read_map(const JsonPlace& place) {
  if (!place.value.is_object()) return place.refuse("must be an object");
  if (place.value.size() > kEntriesMax) return place.refuse("has too many entries");
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : place.value.items())
    texts[key] = TRY(read_lines(place.at(std::string_view(key))));
  return texts;
}

constexpr const char* kNotInHome = "every path begins with {home}/";
bool is_in_home(std::string_view path) {
  return path.starts_with("{home}/") && is_inner_path(path);
}

Result<Launch> read_launch(const JsonPlace& place) {
  Launch launch;
  if (place.has("arguments")) launch.arguments = TRY(read_texts(place.at("arguments")));
  if (place.has("environment")) launch.environment = TRY(read_map(place.at("environment")));
  if (place.has("files")) launch.files = TRY(read_map(place.at("files")));
  if (place.has("words")) launch.words = TRY(read_map(place.at("words")));
  for (const auto& [path, text] : launch.files)
    if (!is_in_home(path)) return place.at("files").refuse(kNotInHome);
  if (place.has("removes")) launch.removes = TRY(read_texts(place.at("removes")));
  for (const std::string& path : launch.removes)
    if (!is_in_home(path)) return place.at("removes").refuse(kNotInHome);
  return launch;
}

Result<Launch> read_placed(const JsonPlace& recipe, const char* key) {
  if (!recipe.has(key)) return Launch{};
  const JsonPlace place = recipe.at(key);
  TRY_VOID(place.expect_object({"arguments", "environment", "files", "removes", "words"}));
  return read_launch(place);
}

Result<Package> read_package(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"name", "version", "integrity", "keep"}));
  Package package{.name = TRY(place.at("name").text()),
                  .version = TRY(place.at("version").text()),
                  .integrity = TRY(place.at("integrity").text())};
  if (!package.integrity.starts_with("sha512-"))
    return place.at("integrity").refuse("must begin with sha512-");
  if (place.has("keep")) package.keep = TRY(read_texts(place.at("keep")));
  return package;
}

template <class Value>
Result<Value> read_word(const JsonPlace& place, std::string_view first, Value one,
                        std::string_view second, Value other) {
  const std::string text = TRY(place.text());
  if (text == first) return one;
  if (text == second) return other;
  return place.refuse(fmt::format("must be {} or {}", first, second));
}

Result<Recipe> read_recipe(const std::string& name, const JsonPlace& place) {
  if (!is_name(name)) return place.refuse("a name has up to 32 characters of a-z, 0-9 and '-'");
  // So end the names of templates.
  if (name.ends_with("-packages")) return place.refuse("a name does not end in -packages");
  TRY_VOID(place.expect_object({"protocol", "licence", "packages", "program", "script", "tools",
                                "memory_mb", "session", "environment", "arguments", "files",
                                "removes", "new", "resume", "brain", "sandbox", "model_prefix"}));
  Recipe recipe;
  recipe.name = name;
  const auto protocol = read_protocol(TRY(place.at("protocol").text()));
  if (!protocol) return place.at("protocol").refuse(protocol.error().message);
  recipe.protocol = *protocol;
  recipe.licence = TRY(place.at("licence").text());
  TRY_VOID(place.at("packages").expect_list(kPackagesMax));
  for (std::size_t i = 0; i < place.at("packages").value.size(); ++i)
    recipe.packages.push_back(TRY(read_package(place.at("packages").at(i))));
  if (recipe.packages.empty()) return place.at("packages").refuse("names no package");
  recipe.program = TRY(place.at("program").text());
  if (place.has("script")) recipe.script = TRY(place.at("script").text());
  if (!is_inner_path(recipe.program) || (!recipe.script.empty() && !is_inner_path(recipe.script)))
    return place.at("program").refuse("must be a path inside the installation");
  recipe.tools = TRY(
      read_word(place.at("tools"), "streams", Recipe::Tools::kStreams, "mcp", Recipe::Tools::kMcp));
  recipe.session_names = TRY(read_word(place.at("session"), "ours", Recipe::Names::kOurs, "theirs",
                                       Recipe::Names::kTheirs));
  recipe.memory_bytes = TRY(place.at("memory_mb").number(64, kMemoryMbMax)) << 20;
  if (place.has("model_prefix")) recipe.model_prefix = TRY(place.at("model_prefix").text());
  recipe.always = TRY(read_launch(place));
  if (place.has("new")) recipe.arguments_new = TRY(read_texts(place.at("new")));
  if (place.has("resume")) recipe.arguments_resume = TRY(read_texts(place.at("resume")));
  recipe.brain = TRY(read_placed(place, "brain"));
  recipe.sandbox = TRY(read_placed(place, "sandbox"));
  if (place.has("brain")) recipe.placements.push_back(Placement::kBrain);
  if (place.has("sandbox")) recipe.placements.push_back(Placement::kSandbox);
  return recipe;
}

}  // namespace

Result<Placement> read_placement(std::string_view word) {
  if (word == "brain") return Placement::kBrain;
  if (word == "sandbox") return Placement::kSandbox;
  return make_error(ErrorCode::kInvalid, "read placement",
                    fmt::format("'{}' is none; there are brain and sandbox", word));
}

std::string_view name_of(Placement placement) {
  return placement == Placement::kBrain ? "brain" : "sandbox";
}

bool Recipe::lives_in(Placement placement) const {
  return placements.empty() || std::ranges::find(placements, placement) != placements.end();
}

Result<std::vector<Recipe>> read_recipes(std::string_view json, std::string_view from) {
  const auto parsed = parse_json(json);
  if (!parsed || !parsed->is_object())
    return make_error(ErrorCode::kInvalid, "read recipes of harnesses",
                      fmt::format("{} is no object of recipes", from));
  if (parsed->size() > kRecipesMax)
    return make_error(ErrorCode::kLimit, "read recipes of harnesses",
                      fmt::format("{} has more than {} recipes", from, kRecipesMax));
  std::vector<Recipe> recipes;
  const JsonPlace all{*parsed, std::string(from)};
  for (const auto& [name, value] : parsed->items())
    recipes.push_back(TRY(read_recipe(name, all.at(std::string_view(name)))));
  return recipes;
}

const std::vector<Recipe>& known_recipes() {
  static const std::vector<Recipe> kRecipes = [] {
    auto read =
        read_recipes({pons_harness_recipes_begin, pons_harness_recipes_end}, "recipes.json");
    CHECK(read.has_value());
    return std::move(*read);
  }();
  return kRecipes;
}

}  // namespace pons::harness
