#include "help.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "pons/base/text.h"

namespace pons::cli {

namespace {

constexpr std::string_view kSummaryEnd = "\n\n";

// A command's description holds both: the summary up to the first empty line, and the text after
// it.
std::string summary_of(const CLI::App& app) {
  const std::string description = app.get_description();
  return description.substr(0, description.find(kSummaryEnd));
}

std::string text_of(const CLI::App& app) {
  const std::string description = app.get_description();
  const auto end = description.find(kSummaryEnd);
  return end == std::string::npos ? std::string() : description.substr(end + kSummaryEnd.size());
}

std::string section(std::string_view title, std::string_view body) {
  if (trim(body).empty()) return {};
  std::string text = fmt::format("{}\n", title);
  for (const std::string_view line : split(body, '\n'))
    text += line.empty() ? "\n" : fmt::format("  {}\n", line);
  return text + "\n";
}

std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : path_of(*app.get_parent()) + " " + app.get_name();
}

class ManualFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::string commands, options, positionals, synopsis = path_of(*app);
    for (const CLI::App* sub : app->get_subcommands([](const CLI::App*) { return true; }))
      commands += fmt::format("{:<12} {}\n", sub->get_name(), summary_of(*sub));
    for (const CLI::Option* option : app->get_options()) {
      const bool positional = option->get_positional();
      const std::string name = positional ? option->get_name(true) : option->get_name(false, true);
      const std::string value =
          option->get_type_size() == 0 || positional ? "" : " " + option->get_type_name();
      (positional ? positionals : options) +=
          fmt::format("{:<24} {}\n", name + value, option->get_description());
      if (positional) synopsis += " " + name;
    }
    if (!commands.empty()) synopsis += " COMMAND";
    synopsis += " [OPTIONS]";
    const auto without_last_line_end = [](std::string text) {
      if (text.ends_with('\n')) text.pop_back();
      return text;
    };
    return section("NAME", fmt::format("{} - {}", path_of(*app), summary_of(*app))) +
           section("SYNOPSIS", synopsis) + section("DESCRIPTION", text_of(*app)) +
           section("COMMANDS", without_last_line_end(commands)) +
           section("ARGUMENTS", without_last_line_end(positionals)) +
           section("OPTIONS", without_last_line_end(options)) + app->get_footer() + "\n";
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> manual_formatter() {
  return std::make_shared<ManualFormatter>();
}

void explain(CLI::App& command, const std::string& text) {
  command.description(command.get_description() + std::string(kSummaryEnd) + text);
}

}  // namespace pons::cli
