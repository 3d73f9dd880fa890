#include <signal.h>

#include <functional>
#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "file_words.h"
#include "help.h"
#include "pons/base/text.h"
#include "pons/linux/signals.h"
#include "pons/sandbox/wire.h"
#include "pons/templates/debian.h"
#include "pons/templates/import.h"
#include "progress_bar.h"
#include "template_work.h"
#include "terminal.h"

namespace pons::cli {

namespace {

using sandbox::Provider;
using sandbox::TemplateInfo;

// The layers of a snapshot are in the store before the warden knows the template.
constexpr std::chrono::minutes kSparedAge{10};

// What one call of the command line may hold on to.
struct Words {
  std::string name;
  std::string path;
  std::string packages;
  bool sudo = false;
  std::string suite = "bookworm";
  std::string mirror;
  std::string reference;
  std::uint64_t bytes_max = templates::TreeLimits{}.bytes;
};

Result<void> print_list(const std::string& state_dir, const Common& common) {
  const auto known = TRY(list_templates(state_dir));
  if (common.json) {
    Json all = Json::array();
    for (const TemplateInfo& info : known) all.push_back(sandbox::to_json(info));
    fmt::print("{}\n", dump_json({{"templates", std::move(all)}}));
    return {};
  }
  std::vector<std::vector<Cell>> rows = {{{"NAME", Tone::kDim},
                                          {"KIND", Tone::kDim},
                                          {"LAYERS", Tone::kDim},
                                          {"SIZE", Tone::kDim},
                                          {"USER", Tone::kDim},
                                          {"SOURCE", Tone::kDim}}};
  for (const TemplateInfo& info : known)
    rows.push_back({info.name,
                    info.kind,
                    fmt::format("{}", info.layers.size()),
                    info.bytes == 0 ? "-" : human_bytes(info.bytes),
                    info.user,
                    {info.source, Tone::kDim}});
  print_table(rows);
  return {};
}

// The making of layers takes minutes: whether anybody wants to know of them is asked before.
Result<void> make_template(
    const std::string& state_dir, const Common& common, const std::string& title,
    const std::function<Result<TemplateInfo>(const templates::LayerStore&,
                                             const templates::StoreLease&, int interrupt_fd,
                                             const templates::ProgressSink&)>& make) {
  TRY(list_templates(state_dir));
  const auto signals = TRY(linux::SignalFd::create({SIGINT, SIGTERM}));
  const auto store = TRY(templates::LayerStore::open(state_dir));
  const auto lease = TRY(store.lease());
  ProgressBar bar(title);
  const TemplateInfo info =
      TRY(make(store, lease, signals.fd(),
               [&](const templates::Progress& progress) { bar.show(progress); }));
  TRY_VOID(
      ask_warden<void>(state_dir, [&](Provider& provider) { return provider.put_template(info); }));
  if (common.json)
    fmt::print("{}\n", dump_json(sandbox::to_json(info)));
  else
    fmt::print("template {}: {} in {} layer{}\n", info.name, human_bytes(info.bytes),
               info.layers.size(), info.layers.size() == 1 ? "" : "s");
  return {};
}

Result<void> build(const std::string& state_dir, const Common& common, const Words& words) {
  return make_template(state_dir, common, "build " + words.name,
                       [&](const templates::LayerStore& store, const templates::StoreLease& lease,
                           int interrupt_fd, const templates::ProgressSink& progress) {
                         templates::DebianOptions options{.name = words.name,
                                                          .packages = {},
                                                          .suite = words.suite,
                                                          .mirror = words.mirror,
                                                          .limits = {.interrupt_fd = interrupt_fd},
                                                          .progress = progress};
                         const bool base =
                             words.name == templates::kBaseTemplate && words.packages.empty();
                         options.allow_sudo = words.sudo || base;
                         if (base) options.packages = templates::base_packages();
                         std::string spaced = words.packages;
                         std::ranges::replace(spaced, ',', ' ');
                         for (const std::string_view package : split(spaced, ' '))
                           if (!trim(package).empty()) options.packages.emplace_back(trim(package));
                         return templates::build_debian(store, lease, options);
                       });
}

Result<void> import(const std::string& state_dir, const Common& common, const Words& words) {
  return make_template(state_dir, common, "import " + words.name,
                       [&](const templates::LayerStore& store, const templates::StoreLease& lease,
                           int interrupt_fd, const templates::ProgressSink& progress) {
                         return templates::import_image(
                             store, lease,
                             {.name = words.name,
                              .path = words.path,
                              .reference = words.reference,
                              .limits = {.bytes = words.bytes_max, .interrupt_fd = interrupt_fd},
                              .progress = progress});
                       });
}

void print_collected(const templates::Collected& collected, const Common& common) {
  if (common.json)
    fmt::print("{}\n", dump_json({{"layers", collected.layers},
                                  {"bytes", collected.bytes},
                                  {"leftovers", collected.leftovers}}));
  else
    fmt::print("deleted {} layers ({}) and what {} unfinished builds left\n",
               collected.layers.size(), human_bytes(collected.bytes), collected.leftovers);
}

Result<void> remove(const std::string& state_dir, const Common& common, const Words& words) {
  const auto unneeded = TRY(ask_warden<std::vector<std::string>>(
      state_dir, [&](Provider& provider) { return provider.remove_template(words.name); }));
  if (const auto collected = TRY(collect_layers(state_dir, unneeded)))
    print_collected(*collected, common);
  return {};
}

Result<void> collect(const std::string& state_dir, const Common& common) {
  std::set<std::string> needed;
  for (const TemplateInfo& info : TRY(list_templates(state_dir))) {
    needed.insert(info.layers.begin(), info.layers.end());
    needed.insert(info.held_layers.begin(), info.held_layers.end());
  }
  const auto store = TRY(templates::LayerStore::open(state_dir));
  const auto collected = TRY(store.collect(needed, kSparedAge));
  print_collected(collected, common);
  return {};
}

}  // namespace

void add_template(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* group = app.add_subcommand("template", "Make and list what sandboxes start from");
  group->require_subcommand(1);
  const auto words = std::make_shared<Words>();
  const auto add = [&](const char* name, const char* summary, const char* text) {
    CLI::App* command = group->add_subcommand(name, summary);
    explain(*command, text);
    add_config_options(*command, common);
    add_json_option(*command, common);
    return command;
  };
  const auto run = [&common, &exit_code, words](CLI::App* command, auto work) {
    command->callback([&common, &exit_code, words, work] {
      exit_code = run_with_state(common, [&](const std::string& dir) -> Result<int> {
        TRY_VOID(work(dir, common, *words));
        return 0;
      });
    });
  };

  CLI::App* list = add("ls", "List the templates",
                       "Shows every template: what it is, how many layers it has, how large it is "
                       "and where it came from.");
  run(list,
      [](const std::string& dir, const Common& c, const Words&) { return print_list(dir, c); });

  CLI::App* made =
      add("build", "Build a Debian template from a list of packages",
          "Builds a minimal Debian with the packages and a user `user`, by mmdebstrap. "
          "The host's apt sources and\ncredentials are used and are not in the result. Without "
          "packages, `base` gets what E2B's base has.");
  made->add_option("name", words->name, "Name of the template")->required();
  made->add_option("--packages", words->packages, "Packages, separated by spaces or commas");
  made->add_flag("--sudo", words->sudo, "`user` may become root inside, without a password");
  made->add_option("--suite", words->suite, "Debian release")->capture_default_str();
  made->add_option("--mirror", words->mirror, "Mirror (default: the host's own sources)")
      ->type_name("URL");
  run(made, build);

  CLI::App* imported = add(
      "import", "Import a container image",
      "Reads an OCI layout (a directory, or a tar of one) or what `docker save` wrote, verifies "
      "its digests and makes a\nlayer of each of its layers. Nothing in the image can reach "
      "outside of the layer it unpacks to.");
  imported->add_option("name", words->name, "Name of the template")->required();
  imported->add_option("path", words->path, "Image: directory or tar archive")
      ->required()
      ->type_name(kFile);
  imported->add_option("--ref", words->reference, "Which image, when there are several: its tag");
  imported->add_option("--max-bytes", words->bytes_max, "Refuse more than this when unpacked")
      ->capture_default_str();
  run(imported, import);

  CLI::App* removed = add("rm", "Remove a template",
                          "Removes a template that no sandbox uses, and the layers that no other "
                          "template shares.");
  removed->add_option("name", words->name, "Name of the template")->required();
  run(removed, remove);

  CLI::App* collected =
      add("gc", "Delete layers that no template needs",
          "Deletes layers that no template names, and what killed builds left behind.");
  run(collected,
      [](const std::string& dir, const Common& c, const Words&) { return collect(dir, c); });
}

}  // namespace pons::cli
