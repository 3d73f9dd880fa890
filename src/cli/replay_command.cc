#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "conversation.h"
#include "pons/base/id.h"
#include "pons/brain/warden_hands.h"
#include "pons/http/client.h"
#include "pons/linux/run_task.h"
#include "pons/sandbox/remote.h"
#include "pons/session/tool_text.h"
#include "pons/session/tools.h"
#include "pons/supervisor/supervisor.h"
#include "terminal.h"

namespace pons::cli {

namespace {

// A command of a session, as it went then.
struct Then {
  std::int64_t seq = 0;
  session::ExecuteArguments arguments;
  std::string sandbox;  // in which it ran
  std::string result;
  std::int64_t took_ms = 0;
};

struct Difference {
  const Then* then = nullptr;
  std::string now;
  std::int64_t took_ms = 0;
  bool is_same = false;
};

Result<std::vector<Json>> read_events(const std::string& dir, const std::string& project,
                                      const std::string& id) {
  std::vector<Json> all;
  for (bool more = true; more;) {
    const std::int64_t after = all.empty() ? 0 : all.back().at("seq").get<std::int64_t>();
    const Json page =
        TRY(ask(dir, "brain", "GET",
                session_target(project, fmt::format("/{}/events?after={}", id, after))));
    for (const Json& event : page.at("events")) all.push_back(event);
    more = page.at("more").get<bool>() && !page.at("events").empty();
  }
  return all;
}

// The commands in the order in which they were called.
std::vector<Then> commands_of(const std::vector<Json>& events) {
  std::vector<Then> commands;
  std::string last_sandbox;
  for (const Json& event : events) {
    const std::string type = event.at("type").get<std::string>();
    if (type == "sandbox.bound") last_sandbox = event.at("sandbox").get<std::string>();
    if (type == "tool.called" && event.value("name", "") == session::kExecute) {
      auto arguments = session::read_execute(dump_json(event.value("input", Json::object())));
      if (!arguments) continue;
      const std::string sandbox = arguments->sandbox.empty() ? last_sandbox : arguments->sandbox;
      commands.push_back({.seq = event.at("seq").get<std::int64_t>(),
                          .arguments = std::move(*arguments),
                          .sandbox = sandbox});
    }
    if (type == "tool.ended")
      for (Then& command : commands)
        if (command.seq == event.value("call", std::int64_t{0})) {
          command.result = event.value("text", "");
          command.took_ms = event.value("took_ms", std::int64_t{0});
        }
  }
  return commands;
}

// The last line holds a duration, which is never the same twice.
std::string without_times(std::string text) {
  const std::size_t line = text.find_last_of('\n') + 1;
  const std::size_t begin = text.find("; ", line);
  if (begin == text.npos || text[line] != '[') return text;
  const std::size_t end = text.find_first_of(";]", begin + 1);
  return text.erase(begin, end - begin);
}

Task<Result<std::vector<Difference>>> run_again(session::Hands& hands,
                                                const std::vector<Then>& commands,
                                                const std::string& template_name,
                                                std::map<std::string, std::string>& made) {
  std::vector<Difference> differences;
  const std::string prefix = "replay-" + random_text(10);
  for (const Then& then : commands) {
    auto& sandbox = made[then.sandbox];
    if (sandbox.empty()) {
      sandbox = fmt::format("{}-{}", prefix, made.size());
      for (char& c : sandbox) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      CO_TRY_VOID(
          co_await hands.provision({.sandbox = sandbox, .sandbox_template = template_name}));
    }
    CO_TRY(auto report, co_await hands.execute({.sandbox = sandbox,
                                                .call = fmt::format("replay:{}", then.seq),
                                                .command = then.arguments.command,
                                                .input = then.arguments.input,
                                                .timeout_seconds = then.arguments.timeout_seconds,
                                                .undo = static_cast<session::ExecuteOrder::Undo>(
                                                    then.arguments.undo)}));
    Difference difference{.then = &then, .took_ms = report.took_ms};
    difference.now = session::describe(std::move(report)).text;
    difference.is_same = without_times(difference.now) == without_times(then.result);
    differences.push_back(std::move(difference));
  }
  co_return differences;
}

Task<Result<std::vector<Difference>>> run_and_clean_up(session::Hands& hands,
                                                       const std::vector<Then>& commands,
                                                       const std::string& template_name) {
  std::map<std::string, std::string> made;
  auto differences = co_await run_again(hands, commands, template_name, made);
  for (const auto& [original, sandbox] : made)
    if (!sandbox.empty()) (void)co_await hands.destroy(sandbox);
  co_return differences;
}

Json to_json(const Difference& difference) {
  return {{"seq", difference.then->seq}, {"command", difference.then->arguments.command},
          {"same", difference.is_same},  {"then", difference.then->result},
          {"now", difference.now},       {"then_ms", difference.then->took_ms},
          {"now_ms", difference.took_ms}};
}

void print(const Difference& difference) {
  fmt::print(
      "{} {:>5}  {}  {} ms then, {} ms now\n",
      paint(difference.is_same ? "same" : "DIFF", difference.is_same ? Tone::kGood : Tone::kBad),
      difference.then->seq, printable(difference.then->arguments.command), difference.then->took_ms,
      difference.took_ms);
  if (difference.is_same) return;
  fmt::print("{}\n{}\n{}\n{}\n", paint("  then:", Tone::kDim),
             printable(difference.then->result, LineFeeds::kKept), paint("  now:", Tone::kDim),
             printable(difference.now, LineFeeds::kKept));
}

Result<int> compare_commands(const std::string& dir, const Common& common,
                             const std::vector<Json>& events, const std::string& template_name) {
  const std::vector<Then> commands = commands_of(events);
  const auto loop = TRY(linux::Loop::create());
  sandbox::RemoteProvider provider(
      *loop, http::unix_connector(*loop, supervisor::control_socket_path(dir, "warden")));
  brain::WardenHands hands(*loop, provider, {.memory_bytes = 0, .cpu_percent = 0, .pids = 0});
  const auto differences =
      TRY(linux::run_to_end(*loop, run_and_clean_up(hands, commands, template_name)));
  Json list = Json::array();
  std::size_t different = 0;
  for (const Difference& difference : differences) {
    different += difference.is_same ? 0 : 1;
    list.push_back(to_json(difference));
    if (!common.json) print(difference);
  }
  if (common.json)
    fmt::print("{}\n", dump_json({{"commands", std::move(list)}, {"different", different}}));
  else
    fmt::print("{} commands, {} of them different\n", differences.size(), different);
  return different == 0 ? 0 : 1;
}

}  // namespace

Result<int> replay_session(const std::string& dir, const Common& common, const std::string& project,
                           const std::string& id, const std::string& through) {
  if (!through.empty())
    return compare_commands(dir, common, TRY(read_events(dir, project, id)), through);
  const Json answer =
      TRY(ask(dir, "brain", "POST", session_target(project, fmt::format("/{}/replay", id))));
  const Json& divergences = answer.at("divergences");
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
  } else {
    for (const Json& divergence : divergences)
      fmt::print("{} {:>5}\n  expected {}\n  found    {}\n", paint("DIFF", Tone::kBad),
                 divergence.at("seq").get<std::int64_t>(),
                 printable(divergence.at("expected").get<std::string>()),
                 printable(divergence.at("found").get<std::string>()));
    fmt::print("{} events, {} divergences\n", answer.at("events").get<std::int64_t>(),
               divergences.size());
  }
  return divergences.empty() ? 0 : 1;
}

void add_replay(CLI::App& app, Common& common, int& exit_code) {
  struct Words {
    std::string session;
    std::string project = "default";
    std::string through;
  };
  const auto words = std::make_shared<Words>();
  CLI::App* replay = add_state_command(
      app, common, exit_code, "replay", "Compare a session with what this version would do",
      "Folds the session's log anew and compares each decision in it with the one that would be "
      "taken now. With --through,\nruns its commands again in fresh sandboxes of another template "
      "and shows where output or exit code differ.\n"
      "\n"
      "EXIT STATUS\n"
      "  0 no difference; 1 there are some.",
      Prints::kData, [&common, words](const std::string& dir) {
        return replay_session(dir, common, words->project, words->session, words->through);
      });
  replay->add_option("SESSION", words->session, "ses_…")->required();
  replay->add_option("--through", words->through, "Run its commands again on this template");
  replay->add_option("--project", words->project, "Id of the project (default: default)");
}

}  // namespace pons::cli
