#include <algorithm>

#include <fmt/format.h>

#include "pons/harness/recipe.h"

namespace pons::harness {

namespace {

using Words = std::map<std::string, std::string>;

// They go into JSON, TOML and command lines as they are.
Result<void> check_value(const std::string& word, const std::string& value) {
  const bool is_plain = value.size() <= 1'024 && std::ranges::all_of(value, [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                 (c >= '0' && c <= '9') || std::string_view("._:/@-+").contains(c);
                        });
  if (is_plain) return {};
  return make_error(ErrorCode::kInvalid, "start harness",
                    fmt::format("{} has characters that no harness can be given: use letters, "
                                "digits and ._:/@-+",
                                word));
}

// Words are replaced once: what stands for one is not looked into.
std::string fill(std::string_view text, const Words& words) {
  std::string filled;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    filled += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open);
    const std::size_t close = text.find('}');
    const auto word = close == std::string_view::npos
                          ? words.end()
                          : words.find(std::string(text.substr(1, close - 1)));
    filled += word == words.end() ? std::string_view("{") : std::string_view(word->second);
    text.remove_prefix(word == words.end() ? 1 : close + 1);
  }
  return filled;
}

void add_launch(const Launch& launch, const Words& words, Start& start) {
  for (const std::string& argument : launch.arguments)
    start.arguments.push_back(fill(argument, words));
  for (const auto& [name, value] : launch.environment) start.environment[name] = fill(value, words);
  for (const std::string& path : launch.removes) start.removes.push_back(fill(path, words));
  for (const auto& [path, text] : launch.files) start.files[fill(path, words)] = fill(text, words);
}

}  // namespace

Result<Start> plan_start(const Recipe& recipe, Placement placement, const Places& places) {
  Words words = {{"home", places.home},
                 {"model", recipe.model_prefix + places.model},
                 {"gateway", places.gateway},
                 {"tools", places.tools},
                 {"key", places.key},
                 {"session", places.session},
                 {"directory", places.directory}};
  for (const auto& [word, value] : words) TRY_VOID(check_value(word, value));
  const Launch& placed = placement == Placement::kBrain ? recipe.brain : recipe.sandbox;
  for (const auto& [word, text] : placed.words) words.try_emplace(word, fill(text, words));
  Start start;
  start.program = places.directory + "/" + recipe.program;
  start.arguments.push_back(recipe.name);
  if (!recipe.script.empty()) start.arguments.push_back(places.directory + "/" + recipe.script);
  start.environment = {{"HOME", places.home}};
  add_launch(recipe.always, words, start);
  add_launch(placed, words, start);
  for (const std::string& argument :
       places.resumes ? recipe.arguments_resume : recipe.arguments_new)
    start.arguments.push_back(fill(argument, words));
  return start;
}

}  // namespace pons::harness
