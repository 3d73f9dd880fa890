#pragma once

#include <memory>
#include <string>

namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace pons::cli {

// Help in the shape of a manual page: NAME, SYNOPSIS, DESCRIPTION, COMMANDS, OPTIONS, and the
// footer's own sections.
std::shared_ptr<CLI::FormatterBase> manual_formatter();

// Adds the DESCRIPTION to a command that was made with its one-line summary.
void explain(CLI::App& command, const std::string& text);

}  // namespace pons::cli
