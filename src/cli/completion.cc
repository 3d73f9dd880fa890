#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "command.h"

namespace pons::cli {

namespace {

std::string words_of(const CLI::App& app) {
  std::string words;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    words += sub->get_name() + " ";
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  return words;
}

// One line per command: the words that may follow it.
void collect(const CLI::App& app, const std::string& path,
             std::vector<std::pair<std::string, std::string>>& table) {
  table.emplace_back(path, words_of(app));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    collect(*sub, path + " " + sub->get_name(), table);
}

// The options of this command and of those below it whose next word is their value.
void collect_options_with_value(const CLI::App& app, std::set<std::string>& names) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0)
      for (const std::string& name : option->get_lnames()) names.insert("--" + name);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    collect_options_with_value(*sub, names);
}

std::string bash_script(const CLI::App& root) {
  std::vector<std::pair<std::string, std::string>> table;
  collect(root, "pons", table);
  std::set<std::string> options_with_value;
  collect_options_with_value(root, options_with_value);
  std::string commands;
  for (const auto& [path, words] : table)
    commands += fmt::format("{}\"{}\"", commands.empty() ? "" : "|", path);
  std::string script =
      "# bash completion for pons: source <(pons completion bash)\n"
      "_pons() {\n"
      "  local path=pons word words i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    case $word in\n"
      "      " +
      fmt::format("{}", fmt::join(options_with_value, "|")) +
      ") ((i++)) ;;\n"
      "      --) COMPREPLY=($(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\")); return ;;\n"
      "      -*) ;;\n"
      "      *) case \"$path $word\" in\n"
      "        " +
      commands +
      ") path+=\" $word\" ;;\n"
      "      esac ;;\n"
      "    esac\n"
      "  done\n"
      "  case ${COMP_WORDS[COMP_CWORD-1]} in\n"
      "    --config) COMPREPLY=($(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\")); return ;;\n"
      "    --state-dir) COMPREPLY=($(compgen -d -- \"${COMP_WORDS[COMP_CWORD]}\")); return ;;\n"
      "  esac\n"
      "  case $path in\n";
  for (const auto& [path, words] : table)
    script += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, words);
  script +=
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
      "}\n"
      "complete -F _pons pons\n";
  return script;
}

std::string fish_script(const CLI::App& root) {
  std::string script = "# fish completion for pons: pons completion fish | source\n";
  for (const CLI::App* sub : root.get_subcommands([](const CLI::App*) { return true; })) {
    script += fmt::format("complete -c pons -n __fish_use_subcommand -f -a {}\n", sub->get_name());
    for (const CLI::App* leaf : sub->get_subcommands([](const CLI::App*) { return true; })) {
      script += fmt::format("complete -c pons -n '__fish_seen_subcommand_from {}' -f -a {}\n",
                            sub->get_name(), leaf->get_name());
      for (const CLI::Option* option : leaf->get_options())
        for (const std::string& name : option->get_lnames())
          script += fmt::format(
              "complete -c pons -n '__fish_seen_subcommand_from {}; and "
              "__fish_seen_subcommand_from {}' -l {}\n",
              sub->get_name(), leaf->get_name(), name);
    }
    for (const CLI::Option* option : sub->get_options())
      for (const std::string& name : option->get_lnames())
        script += fmt::format("complete -c pons -n '__fish_seen_subcommand_from {}' -l {}\n",
                              sub->get_name(), name);
  }
  return script;
}

}  // namespace

void add_completion(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for your shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "EXAMPLES\n"
      "  source <(pons completion bash)                                this shell only\n"
      "  pons completion bash > /etc/bash_completion.d/pons            every shell\n"
      "  pons completion fish > ~/.config/fish/completions/pons.fish");
  command->callback([&app, shell, &exit_code] {
    if (*shell == "fish") {
      fmt::print("{}", fish_script(app));
    } else {
      if (*shell == "zsh") fmt::print("autoload -U +X bashcompinit && bashcompinit\n");
      fmt::print("{}", bash_script(app));
    }
    exit_code = 0;
  });
}

}  // namespace pons::cli
