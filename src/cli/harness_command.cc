#include <signal.h>

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "harness_recipes.h"
#include "help.h"
#include "pons/base/text.h"
#include "pons/harness/installation.h"
#include "pons/linux/signals.h"
#include "pons/sandbox/template_name.h"
#include "pons/sandbox/wire.h"
#include "pons/templates/packages.h"
#include "pons/templates/program_root.h"
#include "progress_bar.h"
#include "template_work.h"
#include "terminal.h"

namespace pons::cli {

namespace {

using harness::Recipe;
using sandbox::Provider;
using sandbox::TemplateInfo;
using State = const std::string&;

using Words = HarnessWords;
using Installed = InstalledHarness;

std::uint64_t download_bytes(const Recipe& recipe) {
  std::uint64_t bytes = 0;
  std::set<std::string> counted;
  for (const harness::PlacedPackage& placed : harness::packages_of(recipe))
    if (counted.insert(placed.package.integrity).second) bytes += placed.bytes;
  return bytes;
}

const char* word_of(harness::Placement placement) {
  return placement == harness::Placement::kBrain ? "brain" : "sandbox";
}

// ---- ls

Json to_json(const Recipe& recipe, const Installed& installed) {
  Json placements = Json::array();
  for (const auto placement : recipe.placements) placements.push_back(word_of(placement));
  const auto version = installed.version();
  return {{"name", recipe.name},
          {"tested_version", recipe.version()},
          {"installed_version", version ? Json(*version) : Json()},
          {"as_tested", installed.is_as_tested(recipe)},
          {"licence", recipe.licence},
          {"bytes", installed.is_whole() ? Json(installed.brain->bytes) : Json()},
          {"download_bytes", download_bytes(recipe)},
          {"placements", std::move(placements)}};
}

std::vector<Cell> row_of(const Recipe& recipe, const Installed& installed) {
  std::vector<std::string> placements;
  for (const auto placement : recipe.placements) placements.emplace_back(word_of(placement));
  const std::uint64_t download = download_bytes(recipe);
  const std::string size = installed.is_whole() ? human_bytes(installed.brain->bytes)
                           : download == 0      ? "?"
                                                : human_bytes(download) + " to download";
  return {{recipe.name, Tone::kStrong},
          installed.is_whole() ? Cell(installed.version().value_or("?"),
                                      installed.is_as_tested(recipe) ? Tone::kGood : Tone::kBad)
                               : Cell("`pons harness install " + recipe.name + "`", Tone::kDim),
          recipe.version(),
          size,
          fmt::format("{}", fmt::join(placements, ", ")),
          {recipe.licence, Tone::kDim}};
}

Result<int> list(State state_dir, const Common& common, const Words& words) {
  const auto recipes = TRY(all_recipes(common, words));
  const auto known = TRY(list_templates(state_dir));
  Json all = Json::array();
  std::vector<std::vector<Cell>> rows = {{{"NAME", Tone::kDim},
                                          {"INSTALLED", Tone::kDim},
                                          {"TESTED", Tone::kDim},
                                          {"SIZE", Tone::kDim},
                                          {"PLACEMENT", Tone::kDim},
                                          {"LICENCE", Tone::kDim}}};
  for (const Recipe& recipe : recipes) {
    const Installed installed = find_installed(recipe, known);
    all.push_back(to_json(recipe, installed));
    rows.push_back(row_of(recipe, installed));
    if (installed.is_whole() && !installed.is_as_tested(recipe))
      print_warning(
          fmt::format("{} is installed as \"{}\" and was tested as \"{}\"; "
                      "`pons harness install {}` replaces it",
                      recipe.name, installed.brain->source, harness::describe_installation(recipe),
                      recipe.name));
  }
  if (common.json)
    fmt::print("{}\n", dump_json({{"harnesses", std::move(all)}}));
  else
    print_table(rows);
  return 0;
}

// ---- install

// Before anything is fetched, and not only when it is there.
Result<void> check_unused(State state_dir, const Recipe& recipe) {
  const auto sandboxes = TRY(ask_warden<std::vector<sandbox::SandboxInfo>>(
      state_dir, [](Provider& provider) { return provider.list(); }));
  for (const sandbox::SandboxInfo& info : sandboxes)
    for (const std::string_view part : sandbox::template_parts(info.template_name))
      if (info.state != sandbox::State::kEnded &&
          (part == harness::brain_template(recipe) || part == harness::packages_template(recipe)))
        return make_error(ErrorCode::kConflict, "use harness",
                          fmt::format("sandbox {} has {} in it; end it first, or try again when "
                                      "its work is done",
                                      info.id, recipe.name));
  return {};
}

templates::PackageOptions options_for(const Recipe& recipe) {
  templates::PackageOptions options{.directory = std::string(harness::kInstallDirectory),
                                    .programs = {recipe.program},
                                    .source = harness::describe_installation(recipe)};
  if (!recipe.script.empty()) options.programs.push_back(recipe.script);
  for (const harness::PlacedPackage& placed : harness::packages_of(recipe))
    options.packages.push_back({.name = placed.package.name,
                                .version = placed.package.version,
                                .integrity = placed.package.integrity,
                                .place = placed.place,
                                .bytes = placed.bytes,
                                .keep = placed.package.keep});
  return options;
}

TemplateInfo template_of(const Recipe& recipe, std::string name,
                         const std::vector<templates::LayerInfo>& layers) {
  TemplateInfo info{.name = std::move(name),
                    .kind = std::string(kHarnessTemplates),
                    .created_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                           std::chrono::system_clock::now().time_since_epoch())
                                           .count(),
                    .source = harness::describe_installation(recipe)};
  for (const templates::LayerInfo& layer : layers) {
    info.layers.push_back(layer.digest);
    info.bytes += layer.bytes;
  }
  return info;
}

Result<void> put(State state_dir, const TemplateInfo& info) {
  return ask_warden<void>(state_dir,
                          [&](Provider& provider) { return provider.put_template(info); });
}

// Both, or what was there before.
Result<void> put_both(State state_dir, const Installed& former, const TemplateInfo& packages,
                      const TemplateInfo& brain) {
  TRY_VOID(put(state_dir, packages));
  auto done = put(state_dir, brain);
  if (done) return {};
  if (former.packages) {
    (void)put(state_dir, *former.packages);
  } else {
    (void)ask_warden<std::vector<std::string>>(
        state_dir, [&](Provider& provider) { return provider.remove_template(packages.name); });
  }
  return done;
}

// Of these layers those that no template has, or has no more.
Result<void> collect_unneeded(State state_dir, std::vector<std::string> layers) {
  for (const TemplateInfo& info : TRY(list_templates(state_dir)))
    std::erase_if(layers, [&](const std::string& layer) {
      return std::ranges::find(info.layers, layer) != info.layers.end() ||
             std::ranges::find(info.held_layers, layer) != info.held_layers.end();
    });
  TRY(collect_layers(state_dir, layers));
  return {};
}

// The layers go into `made` as soon as they are there.
Result<TemplateInfo> make_templates(State state_dir, const Recipe& recipe, const Installed& former,
                                    std::vector<std::string>& made) {
  const auto signals = TRY(linux::SignalFd::create({SIGINT, SIGTERM}));
  const auto store = TRY(templates::LayerStore::open(state_dir));
  const auto lease = TRY(store.lease());
  ProgressBar bar("install " + recipe.name);
  templates::PackageOptions options = options_for(recipe);
  options.limits.interrupt_fd = signals.fd();
  options.progress = [&](const templates::Progress& progress) { bar.show(progress); };
  const auto packages = TRY(templates::install_packages(store, lease, options));
  made.push_back(packages.digest);
  const std::string program = fmt::format("{}/{}/{}", store.tree_path(packages.digest),
                                          harness::kInstallDirectory, recipe.program);
  const auto root =
      TRY(templates::make_program_root(store, lease, program, "libraries of " + options.source));
  made.push_back(root.digest);
  const TemplateInfo brain = template_of(recipe, harness::brain_template(recipe), {packages, root});
  TRY_VOID(put_both(state_dir, former,
                    template_of(recipe, harness::packages_template(recipe), {packages}), brain));
  return brain;
}

void print_installed(const Recipe& recipe, const Installed& installed, const Common& common,
                     std::string_view how) {
  if (common.json)
    fmt::print("{}\n", dump_json(to_json(recipe, installed)));
  else
    fmt::print("{} {}: {}, {}\n", recipe.name, recipe.version(),
               human_bytes(installed.brain->bytes), how);
}

Result<int> install(State state_dir, const Common& common, const Words& words) {
  const Recipe recipe = TRY(find_recipe(common, words));
  const Installed former = find_installed(recipe, TRY(list_templates(state_dir)));
  if (former.is_as_tested(recipe) && !words.again) {
    print_installed(recipe, former, common, "installed already; --again fetches it once more");
    return 0;
  }
  TRY_VOID(check_unused(state_dir, recipe));
  const std::uint64_t download = download_bytes(recipe);
  fmt::print(stderr, "{} {}\n  licence: {}\n  download: {}\n", recipe.name, recipe.version(),
             printable(recipe.licence), download == 0 ? "size not known" : human_bytes(download));
  std::vector<std::string> layers;
  const auto made = make_templates(state_dir, recipe, former, layers);
  for (const auto* old : {&former.brain, &former.packages})
    if (*old) layers.insert(layers.end(), (*old)->layers.begin(), (*old)->layers.end());
  // What is left over is found by `pons template gc`, too.
  const auto collected = collect_unneeded(state_dir, std::move(layers));
  if (!made) return made.error();
  if (!collected) print_warning(collected.error().describe());
  print_installed(recipe, find_installed(recipe, TRY(list_templates(state_dir))), common,
                  "installed");
  return 0;
}

// ---- rm

Result<int> remove(State state_dir, const Common& common, const Words& words) {
  const Recipe recipe = TRY(find_recipe(common, words));
  const Installed former = find_installed(recipe, TRY(list_templates(state_dir)));
  if (!former.brain && !former.packages)
    return make_error(ErrorCode::kNotFound, "remove harness", recipe.name + " is not installed");
  TRY_VOID(check_unused(state_dir, recipe));
  std::vector<std::string> layers;
  for (const auto* info : {&former.brain, &former.packages}) {
    if (!*info) continue;
    auto unneeded = TRY(ask_warden<std::vector<std::string>>(
        state_dir, [&](Provider& provider) { return provider.remove_template((*info)->name); }));
    layers.insert(layers.end(), unneeded.begin(), unneeded.end());
  }
  if (const auto collected = TRY(collect_layers(state_dir, layers)))
    fmt::print("removed {}: {}\n", recipe.name, human_bytes(collected->bytes));
  else
    fmt::print("removed {}; `pons template gc` deletes its layers\n", recipe.name);
  return 0;
}

}  // namespace

void add_harness(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* group = app.add_subcommand("harness", "Install other people's agents");
  group->require_subcommand(1);
  const auto words = std::make_shared<Words>();
  const auto add = [&](const char* name, const char* summary, const char* text, Prints prints,
                       auto work) {
    CLI::App* command =
        add_state_command(*group, common, exit_code, name, summary, text, prints,
                          [&common, words, work](State dir) { return work(dir, common, *words); });
    command->add_option("--recipes", words->recipes, "Those described in this file, too")
        ->type_name("FILE");
    return command;
  };
  CLI::App* installed =
      add("install", "Install a harness in the version that was tested",
          "Fetches the packages by the machine's own npm, verifies the SHA-512 of each, and makes "
          "two templates of them:\n`harness-NAME`, which holds the program and its libraries and "
          "no shell, and `harness-NAME-packages`, to be put on top\nof another (`base+harness-"
          "NAME-packages`). Nothing of a package is run. A former version is replaced when the\n"
          "new one is whole.",
          Prints::kData, install);
  installed->add_option("name", words->name, "opencode, claude-code, codex or pi")->required();
  installed->add_flag("--again", words->again, "Also when that version is installed already");
  add("ls", "List the harnesses",
      "Shows every harness that Pons can drive: the version that is installed and the one that "
      "was tested, its size, where\nit can live, and its licence.",
      Prints::kData, list);
  CLI::App* removed = add("rm", "Remove a harness",
                          "Removes the two templates of a harness that no sandbox uses, and their "
                          "layers.",
                          Prints::kText, remove);
  removed->add_option("name", words->name, "Its name")->required();
  CLI::App* tried = add("test", "Try whether a harness keeps its promises",
                        "Starts a second Pons on a directory of its own, whose model is a script "
                        "in this command, and "
                        "lets the harness work\nthere: tasks, memory, interrupts, processes that "
                        "die, models that fail, "
                        "budgets, tools, files and names. One line\nfor each promise; exit status "
                        "1 when one is broken. "
                        "It costs nothing, asks nobody, and leaves nothing. Pons must be\nrunning, "
                        "for the harness is "
                        "taken from there.\n"
                        "\n"
                        "EXAMPLES\n"
                        "  pons harness test codex\n"
                        "  pons harness test native\n"
                        "  pons harness test mine --story tools       one story only",
                        Prints::kData, test_harness);
  tried->add_option("name", words->name, "native, or the name of one that is installed")
      ->required();
  tried->add_option("--story", words->story, "Only stories whose name holds this")
      ->type_name("NAME");
  tried->add_flag("--long", words->with_long, "Also what takes minutes: models that fail for good");
}

}  // namespace pons::cli
