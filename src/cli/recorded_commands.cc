#include "recorded_commands.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/session/machine_tools.h"
#include "pons/session/tools.h"

namespace pons::cli {

namespace {

// The session's own machine; sandboxes have ids.
constexpr const char* kMachine = "machine";

std::string_view why_not_run(std::string_view outcome) {
  if (outcome == "refused") return "it was refused";
  if (outcome == "interrupted")
    return "it was interrupted; nobody knows what it would have come to";
  if (outcome.empty()) return "nothing came of it here";
  return {};
}

// Of an output that was very long only the end is kept, and where that begins is chance.
bool has_lost_its_beginning(const Json& event) {
  const std::string text = event.value("text", "");
  return event.contains("full") && text.starts_with("[the first ") &&
         text.substr(0, text.find('\n')).ends_with(" were not kept]");
}

std::string why_incomparable(const Json& event) {
  if (!event.value("redacted", Json::array()).empty())
    return "a credential was crossed out in its output; it was run and is not compared";
  if (has_lost_its_beginning(event))
    return "only the end of its output was kept; it was run and is not compared";
  return {};
}

// Reads the commands out of a log, and where each of them ran.
class CommandReader {
 public:
  void take(const Json& event) {
    const std::string type = event.at("type").get<std::string>();
    if (type == "sandbox.bound") take_sandbox(event);
    if (type == "tool.called") take_call(event);
    if (type != "tool.ended") return;
    for (Then& command : found_.all)
      if (command.seq == event.value("call", std::int64_t{0})) {
        command.outcome = event.value("outcome", "");
        command.result = event.value("text", "");
        command.is_error = event.value("is_error", false);
        command.full = event.value("full", "");
        command.incomparable = why_incomparable(event);
        command.took_ms = event.value("took_ms", std::int64_t{0});
      }
  }

  Commands finish() {
    std::erase_if(found_.all, [this](const Then& command) {
      const std::string_view why = why_not_run(command.outcome);
      if (!why.empty()) skip(command.seq, command.tool, std::string(why));
      return !why.empty();
    });
    return std::move(found_);
  }

 private:
  struct Provision {
    std::int64_t asked = 0;
    std::int64_t block = 0;
    std::int64_t seq = 0;
  };

  void skip(std::int64_t seq, std::string tool, std::string why) {
    found_.skipped.push_back({.seq = seq, .tool = std::move(tool), .why = std::move(why)});
  }

  void take_sandbox(const Json& event) {
    const std::int64_t call = event.value("call", std::int64_t{0});
    const bool is_machine = std::ranges::any_of(found_.all, [&](const Then& command) {
      return command.seq == call && command.sandbox == kMachine;
    });
    const std::string id = event.at("sandbox").get<std::string>();
    const std::string name = is_machine ? kMachine : event.value("known_as", id);
    found_.templates[name] = event.value("template", "host");
    if (is_machine) return;
    bound_[call] = name;
    last_sandbox_ = name;
  }

  void take_call(const Json& event) {
    const std::string tool = event.value("name", "");
    const auto seq = event.at("seq").get<std::int64_t>();
    if (tool == session::kProvision)
      provisions_.push_back({.asked = event.value("asked", std::int64_t{0}),
                             .block = event.value("block", std::int64_t{0}),
                             .seq = seq});
    const Json input = event.value("input", Json::object());
    Then then{.seq = seq, .tool = tool};
    if (tool == session::kExecute) {
      auto arguments = session::read_execute(dump_json(input));
      if (!arguments) return skip(seq, tool, "its arguments cannot be read");
      then.shown = arguments->command;
      then.sandbox = arguments->sandbox.empty() ? sandbox_for(event) : arguments->sandbox;
      then.order = {.command = std::move(arguments->command),
                    .input = std::move(arguments->input),
                    .timeout_seconds = arguments->timeout_seconds,
                    .undo = static_cast<session::ExecuteOrder::Undo>(arguments->undo)};
    } else if (session::is_machine_tool(tool)) {
      auto command = session::read_machine_call(tool, dump_json(input));
      if (!command) return skip(seq, tool, "its arguments cannot be read");
      then.shown = input.value("command", fmt::format("{} {}", tool, dump_json(input)));
      then.sandbox = kMachine;
      then.order = {.command = std::move(command->command),
                    .input = std::move(command->input),
                    .timeout_seconds = command->timeout_seconds};
    } else {
      return;
    }
    then.order.call = fmt::format("replay:{}", seq);
    found_.all.push_back(std::move(then));
  }

  // Of a command that names none: the one that the same answer provisioned before it, or the last.
  std::string sandbox_for(const Json& event) const {
    const Provision* before = nullptr;
    for (const Provision& provision : provisions_)
      if (provision.asked == event.value("asked", std::int64_t{0}) &&
          provision.block < event.value("block", std::int64_t{0}) &&
          (before == nullptr || provision.block > before->block))
        before = &provision;
    if (before == nullptr) return last_sandbox_;
    const auto bound = bound_.find(before->seq);
    return bound == bound_.end() ? std::string() : bound->second;
  }

  Commands found_;
  std::vector<Provision> provisions_;
  std::map<std::int64_t, std::string> bound_;  // by call
  std::string last_sandbox_;
};

}  // namespace

Commands commands_of(const std::vector<Json>& events) {
  CommandReader reader;
  for (const Json& event : events) reader.take(event);
  return reader.finish();
}

// The last line may be "[exit code 1; 12 ms; 30.0 KiB of output, shortened]".
Told read_result(const std::string& text) {
  constexpr std::string_view kExitCode = "exit code ";
  constexpr std::string_view kHows[] = {kExitCode, "ended by signal ", "timed out, and was ended",
                                        "ended: ", "interrupted: "};
  Told told{.output = text, .ending = {}, .exit_code = {}};
  const std::size_t begin = text.find_last_of('\n') + 1;
  std::string_view line = std::string_view(text).substr(begin);
  if (!line.starts_with('[') || !line.ends_with(']')) return told;
  line = line.substr(1, line.size() - 2);
  const std::size_t time = line.find("; ");
  const bool is_ending =
      std::ranges::any_of(kHows, [&](std::string_view how) { return line.starts_with(how); });
  if (!is_ending || time == line.npos) return told;
  told.output.resize(begin);
  told.ending = line.substr(0, time);
  if (line.starts_with(kExitCode))
    if (const auto code = parse_decimal(line.substr(kExitCode.size(), time - kExitCode.size())))
      told.exit_code = static_cast<int>(*code);
  if (const std::size_t more = line.find("; ", time + 2); more != line.npos)
    told.ending += line.substr(more);
  return told;
}

}  // namespace pons::cli
