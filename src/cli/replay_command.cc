#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "conversation.h"
#include "pons/brain/warden_hands.h"
#include "pons/http/client.h"
#include "pons/linux/run_task.h"
#include "pons/linux/signals.h"
#include "pons/sandbox/remote.h"
#include "pons/supervisor/supervisor.h"
#include "recorded_commands.h"
#include "rerun.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr int kInterrupted = 130;
constexpr std::size_t kOutputBytesMax = 64 << 20;

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

Task<Result<std::string>> fetch_output(http::Client& brain, std::string target) {
  CO_TRY(auto response, co_await brain.send({.target = std::move(target)}));
  CO_TRY(auto body, co_await response.read_whole_body(kOutputBytesMax));
  if (response.status() != 200)
    co_return make_error(ErrorCode::kUnavailable, "read output", "it cannot be had");
  co_return std::move(body);
}

// Until all are compared; false when a person has had enough before.
Task<bool> run_or_be_interrupted(linux::Loop& loop, Rerun& rerun, linux::SignalFd& signals) {
  linux::Event over(loop);
  bool is_whole = false;
  const auto run = [&]() -> Task<> {
    struct Over {
      linux::Event& event;
      ~Over() { event.set(); }  // also when something throws
    } const at_end{over};
    co_await rerun.run();
    is_whole = true;
  };
  const auto heed = [&]() -> Task<> {
    auto watch = linux::Watch::create(loop, signals.fd());
    if (!watch) co_return;
    while (!signals.take()) co_await watch->readable(kNever);
    over.set();
  };
  linux::TaskGroup tasks(loop);
  tasks.spawn(heed());
  tasks.spawn(run());
  co_await over.wait(kNever);
  tasks.cancel_all();
  co_return is_whole;
}

Task<bool> run_and_clean_up(linux::Loop& loop, Rerun& rerun, linux::SignalFd& signals) {
  const bool is_whole = co_await run_or_be_interrupted(loop, rerun, signals);
  for (const std::string& id : co_await rerun.clean_up())
    print_warning(fmt::format("sandbox {} could not be ended; it ends when it was idle for {} min",
                              id, kRerunIdleMax.count()));
  co_return is_whole;
}

Json code_of(const std::optional<int>& code) {
  return code ? Json(*code) : Json();
}

Json to_json(const Comparison& comparison) {
  const Then& then = *comparison.then;
  Json json = {
      {"seq", then.seq},        {"tool", then.tool},
      {"command", then.shown},  {"same", comparison.is_same},
      {"then", then.result},    {"then_exit_code", code_of(read_result(then.result).exit_code)},
      {"then_ms", then.took_ms}};
  if (!then.full.empty()) json["then_sha256"] = then.full;
  if (!comparison.error.empty()) {
    json["error"] = comparison.error;
    return json;
  }
  json["now"] = comparison.now;
  json["now_exit_code"] = code_of(comparison.exit_code);
  json["now_ms"] = comparison.took_ms;
  if (!comparison.full.empty()) json["now_sha256"] = comparison.full;
  if (!comparison.diff.empty()) json["diff"] = comparison.diff;
  return json;
}

Tone tone_of(std::string_view line) {
  if (line.starts_with('-')) return Tone::kBad;
  if (line.starts_with('+')) return Tone::kGood;
  return line.starts_with('@') ? Tone::kDim : Tone::kPlain;
}

// How a command ended, where its result says so.
std::string end_of(const std::string& result, std::int64_t took_ms) {
  const std::string ending = read_result(result).ending;
  return fmt::format("{}{}{} ms", ending, ending.empty() ? "" : ", ", took_ms);
}

void print(const Comparison& comparison) {
  const Then& then = *comparison.then;
  const bool has_failed = !comparison.error.empty();
  const char* word = has_failed ? "FAIL" : comparison.is_same ? "same" : "DIFF";
  fmt::print("{} {:>5}  {}\n", paint(word, comparison.is_same ? Tone::kGood : Tone::kBad), then.seq,
             printable(then.shown));
  fmt::print("  then: {}\n", printable(end_of(then.result, then.took_ms)));
  if (has_failed) {
    fmt::print("  it could not be run: {}\n", printable(comparison.error));
    return;
  }
  fmt::print("  now:  {}\n", printable(end_of(comparison.now, comparison.took_ms)));
  std::string_view diff = comparison.diff;
  while (!diff.empty()) {
    const std::string_view line = diff.substr(0, diff.find('\n'));
    fmt::print("  {}\n", paint(line, tone_of(line)));
    diff.remove_prefix(std::min(diff.size(), line.size() + 1));
  }
}

int show(const Common& common, const Rerun& rerun, bool is_whole) {
  Json list = Json::array();
  Json left_out = Json::array();
  std::size_t different = 0;
  std::size_t failed = 0;
  for (const Comparison& comparison : rerun.comparisons()) {
    failed += comparison.error.empty() ? 0 : 1;
    different += comparison.is_same || !comparison.error.empty() ? 0 : 1;
    if (common.json)
      list.push_back(to_json(comparison));
    else
      print(comparison);
  }
  const std::vector<Skipped> skipped = rerun.skipped();
  for (const Skipped& call : skipped) {
    left_out.push_back({{"seq", call.seq}, {"tool", call.tool}, {"why", call.why}});
    if (!common.json)
      fmt::print("{} {:>5}  {}: {}\n", paint("skip", Tone::kDim), call.seq, printable(call.tool),
                 printable(call.why));
  }
  if (common.json)
    fmt::print("{}\n", dump_json({{"commands", std::move(list)},
                                  {"different", different},
                                  {"failed", failed},
                                  {"interrupted", !is_whole},
                                  {"skipped", std::move(left_out)}}));
  else
    fmt::print("{} commands, {} of them different, {} could not be run, {} calls skipped\n",
               rerun.comparisons().size(), different, failed, skipped.size());
  if (!is_whole) return kInterrupted;
  return different + failed == 0 ? 0 : 1;
}

// A word with a slash is the socket of another warden, which makes sandboxes of the templates that
// the session had. Any other is a template of this one.
bool is_socket(const std::string& through) {
  return through.find('/') != std::string::npos;
}

Result<int> compare_commands(const std::string& dir, const Common& common,
                             const std::string& project, const std::string& id,
                             const std::string& through) {
  const Commands commands = commands_of(TRY(read_events(dir, project, id)));
  const auto loop = TRY(linux::Loop::create());
  const std::string socket =
      is_socket(through) ? through : supervisor::control_socket_path(dir, "warden");
  if (access(socket.c_str(), F_OK) != 0)
    return make_error(ErrorCode::kNotFound, "replay session",
                      fmt::format("there is no warden at {}", socket));
  auto signals = TRY(linux::SignalFd::create({SIGINT, SIGTERM, SIGHUP}));
  sandbox::RemoteProvider provider(*loop, http::unix_connector(*loop, socket));
  sandbox::Limits limits{.memory_bytes = 0, .cpu_percent = 0, .pids = 0};
  limits.idle_max = kRerunIdleMax;
  brain::WardenHands hands(*loop, provider, limits);
  http::Client brain(*loop,
                     http::unix_connector(*loop, supervisor::control_socket_path(dir, "brain")),
                     "pons", {.first_byte_time = std::chrono::seconds(15)});
  Rerun rerun(*loop, hands, commands,
              {.template_name = is_socket(through) ? std::string() : through, .project = project},
              [&](std::string digest) {
                return fetch_output(
                    brain, session_target(project, fmt::format("/{}/outputs/{}", id, digest)));
              });
  const bool is_whole = linux::run_to_end(*loop, run_and_clean_up(*loop, rerun, signals));
  return show(common, rerun, is_whole);
}

}  // namespace

Result<int> replay_session(const std::string& dir, const Common& common, const std::string& project,
                           const std::string& id, const std::string& through) {
  if (!through.empty()) return compare_commands(dir, common, project, id, through);
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
      "taken now. With --through,\nruns its commands again in fresh sandboxes of another template, "
      "or of another warden, and shows where output or exit\ncode differ, and the times. What "
      "never ran, or not to its end, is skipped. Ctrl-C ends the sandboxes.\n"
      "\n"
      "EXAMPLES\n"
      "  pons replay ses_…\n"
      "  pons replay ses_… --through debian                               another template\n"
      "  pons replay ses_… --through /var/lib/other/run/warden.sock       another host of "
      "sandboxes\n"
      "\n"
      "EXIT STATUS\n"
      "  0 no difference; 1 there are some, or a command could not be run again; 130 interrupted.",
      Prints::kData, [&common, words](const std::string& dir) {
        return replay_session(dir, common, words->project, words->session, words->through);
      });
  replay->add_option("SESSION", words->session, "ses_…")->required();
  replay->add_option("--through", words->through,
                     "Run its commands again on this template, or at the warden of this socket (a "
                     "path with a slash)");
  replay->add_option("--project", words->project, "Id of the project (default: default)");
}

}  // namespace pons::cli
