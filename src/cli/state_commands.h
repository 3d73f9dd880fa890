#pragma once

#include <memory>

#include <CLI/CLI.hpp>

#include "command.h"

namespace pons::cli {

// A group of commands about the state directory that read their words into one struct.
template <class Words>
class StateCommands {
 public:
  using Work = Result<int> (*)(const std::string& state_dir, const Common&, const Words&);

  StateCommands(CLI::App& app, Common& common, int& exit_code, const char* name,
                const char* summary)
      : group_(*app.add_subcommand(name, summary)), common_(common), exit_code_(exit_code) {
    group_.require_subcommand(1);
  }

  CLI::App* add(const char* name, const char* summary, const char* text, Work work,
                Prints prints = Prints::kData) {
    return add_state_command(group_, common_, exit_code_, name, summary, text, prints,
                             [&common = common_, words = words_, work](const std::string& dir) {
                               return work(dir, common, *words);
                             });
  }

  CLI::App& group() { return group_; }
  Words& words() { return *words_; }  // lives as long as the commands

 private:
  CLI::App& group_;
  Common& common_;
  int& exit_code_;
  std::shared_ptr<Words> words_ = std::make_shared<Words>();
};

}  // namespace pons::cli
