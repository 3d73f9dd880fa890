#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pons/base/task.h"
#include "pons/linux/loop.h"
#include "pons/session/world.h"
#include "recorded_commands.h"

namespace pons::cli {

// A sandbox that nobody ends, because this program was killed, ends when idle for so long.
inline constexpr auto kRerunIdleMax = std::chrono::minutes(10);

// A command of a session beside what it came to when it was run again.
struct Comparison {
  const Then* then = nullptr;
  std::string error;  // why it could not be run; nothing else is known then
  std::string now;    // as the model would read it
  std::string full;   // digest of all of it, where that is only a part
  std::int64_t took_ms = 0;
  std::optional<int> exit_code;
  bool is_same = false;
  std::string diff;  // of all of the outputs; empty: they are the same
};

// Where commands are run again.
struct Place {
  std::string template_name;  // empty: of each sandbox the one that it had
  std::string project;        // whose snapshots are templates there
};

// Runs the commands of a session again, in sandboxes of their own.
class Rerun {
 public:
  // All of a recorded output, by its digest.
  using FetchOutput = std::function<Task<Result<std::string>>(std::string digest)>;

  Rerun(linux::Loop& loop, session::Hands& hands, const Commands& commands, Place place,
        FetchOutput fetch);

  // Until all are compared; may be cancelled at any time. What cannot be run is told of with its
  // command.
  Task<> run();
  // Ends the sandboxes; ids of those that could not be ended.
  Task<std::vector<std::string>> clean_up();

  const std::vector<Comparison>& comparisons() const { return comparisons_; }
  // Those that were recorded so, those that cannot be compared, and those that run() never came to.
  std::vector<Skipped> skipped() const;

 private:
  struct Made {
    std::string id;
    std::optional<Error> error;
  };
  Task<Result<std::string>> sandbox_for(const Then& then);
  Task<Comparison> compare(const Then& then);
  Task<> diff(Comparison& comparison, const std::string& before, std::string now);

  linux::Loop& loop_;
  session::Hands& hands_;
  const Commands& commands_;
  Place place_;
  FetchOutput fetch_;
  std::string prefix_;
  std::map<std::string, Made> made_;  // by what the conversation calls them
  std::size_t done_ = 0;              // of all commands
  std::vector<Comparison> comparisons_;
};

}  // namespace pons::cli
