#include <unistd.h>

#include <csignal>
#include <iostream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "conversation.h"
#include "pons/base/id.h"
#include "pons/linux/run_task.h"
#include "pons/linux/signals.h"
#include "terminal.h"
#include "timeline.h"

namespace pons::cli {

namespace {

struct Words {
  std::string task;
  std::string session;  // empty: a new one
  std::string project = "default";
  std::string agent;
  std::string model;
  bool quiet = false;
};

// Exit statuses beside 0 and 1.
constexpr int kWaitsForPerson = 3;
constexpr int kInterrupted = 130;

struct Run {
  linux::Loop& loop;
  const Common& common;
  const Words& words;
  Conversation& conversation;
  Timeline timeline;
  bool left = false;
};

void show(Run& run, std::string_view type, const Json& event) {
  if (type == "agent.delta") {
    if (isatty(STDOUT_FILENO) == 1) run.timeline.take_delta(event.value("text", ""));
    return;
  }
  if (run.common.json) fmt::print("{}\n", dump_json(event));
  run.timeline.take(event);
}

Task<> heed_interrupts(Run& run, linux::SignalFd& signals, linux::Event& over) {
  auto watch = linux::Watch::create(run.loop, signals.fd());
  if (!watch) co_return;
  bool asked = false;
  for (;;) {
    co_await watch->readable(kNever);
    while (signals.take()) {
      if (std::exchange(asked, true)) {
        run.left = true;
        over.set();
        co_return;
      }
      print_warning("stopping the agent; once more leaves it alone");
      (void)co_await run.conversation.send({{"type", "user.interrupt"}});
    }
  }
}

Task<> follow(Run& run, std::int64_t after, Result<void>& outcome, linux::Event& over) {
  outcome = co_await run.conversation.follow(after, [&](std::string_view type, const Json& event) {
    show(run, type, event);
    if (!run.timeline.open().empty() && isatty(STDIN_FILENO) != 1) return true;
    return run.timeline.is_over();
  });
  over.set();
}

// What a person typed, as an event; nothing when it is neither yes nor no, and has to be.
std::optional<Json> event_of(const Timeline::Question& question, std::int64_t call,
                             const std::string& line) {
  if (question.kind == Timeline::Question::Kind::kAnswer)
    return Json{{"type", "user.answer"}, {"call", call}, {"text", line}};
  const bool is_yes = line == "y" || line == "yes";
  if (!is_yes && line != "n" && line != "no") return std::nullopt;
  return Json{{"type", "user.decision"}, {"call", call}, {"allow", is_yes}};
}

// Answers what the agent asks, as long as there is somebody who can.
Task<> answer_questions(Run& run) {
  constexpr Duration kLook = std::chrono::milliseconds(50);
  auto typed = linux::Watch::create(run.loop, STDIN_FILENO);
  while (typed && isatty(STDIN_FILENO) == 1) {
    co_await run.loop.sleep_for(kLook);
    if (run.timeline.open().empty()) continue;
    const auto [call, question] = *run.timeline.open().begin();
    const bool is_decision = question.kind == Timeline::Question::Kind::kDecision;
    std::string line;
    fmt::print("{} ", paint(is_decision ? "yes or no >" : ">", Tone::kStrong));
    std::fflush(stdout);
    // A terminal has a whole line or nothing; until then Ctrl-C is heard.
    co_await typed->readable(kNever);
    if (!std::getline(std::cin, line)) co_return;
    if (!run.timeline.open().contains(call)) continue;  // somebody else was quicker
    auto event = line.empty() ? std::nullopt : event_of(question, call, line);
    if (!event) continue;
    run.timeline.forget_question(call);
    (void)co_await run.conversation.send(std::move(*event));
  }
}

void say_what_is_open(const Timeline& timeline, const std::string& session) {
  for (const auto& [call, question] : timeline.open()) {
    const bool is_decision = question.kind == Timeline::Question::Kind::kDecision;
    print_warning(fmt::format("the agent {}: {}\n{} with: pons sessions {} {} {} --call {}",
                              is_decision ? "wants to call" : "asks", question.text,
                              is_decision ? "decide" : "answer", is_decision ? "decide" : "answer",
                              session, is_decision ? "allow|deny" : "TEXT", call));
  }
}

Task<Result<int>> converse(Run& run, std::int64_t after, linux::SignalFd& signals) {
  Result<void> outcome;
  linux::Event over(run.loop);
  linux::TaskGroup tasks(run.loop);
  tasks.spawn(follow(run, after, outcome, over));
  tasks.spawn(heed_interrupts(run, signals, over));
  tasks.spawn(answer_questions(run));
  co_await over.wait(kNever);
  tasks.cancel_all();
  if (!outcome) co_return outcome.error();
  co_return 0;
}

Result<int> run_task(const std::string& state_dir, const Common& common, const Words& words) {
  Json wish = {{"message", words.task}, {"dedupe", random_text(20)}};
  if (!words.agent.empty()) wish["agent"] = words.agent;
  if (!words.model.empty()) wish["model"] = words.model;
  auto signals = TRY(linux::SignalFd::create({SIGINT, SIGTERM}));
  std::string id = words.session;
  std::int64_t after = 0;
  if (id.empty()) {
    const Json made =
        TRY(ask(state_dir, "brain", "POST", session_target(words.project, ""), dump_json(wish)));
    id = made.at("id").get<std::string>();
  } else {
    const Json message = {
        {"type", "user.message"}, {"text", words.task}, {"dedupe", wish.at("dedupe")}};
    const Json sent = TRY(ask(state_dir, "brain", "POST",
                              session_target(words.project, fmt::format("/{}/events", id)),
                              dump_json({{"events", Json::array({message})}})));
    // What came before is not of this task: another turn may have ended a moment ago.
    after = sent.at("seqs").at(0).get<std::int64_t>() - 1;
  }
  const auto loop = TRY(linux::Loop::create());
  Conversation conversation(*loop, state_dir, words.project, id);
  const bool is_silent = common.json || words.quiet;
  Run run{.loop = *loop,
          .common = common,
          .words = words,
          .conversation = conversation,
          .timeline = Timeline(is_silent ? Timeline::Shows::kNothing : Timeline::Shows::kSteps)};
  if (!is_silent) fmt::print("{}\n", paint("session " + id, Tone::kDim));
  TRY_VOID(linux::run_to_end(*loop, converse(run, after, signals)));
  if (run.left) {
    print_warning(fmt::format("the agent goes on: pons sessions logs -f {}", id));
    return kInterrupted;
  }
  if (!run.timeline.is_over()) {
    say_what_is_open(run.timeline, id);
    return kWaitsForPerson;
  }
  if (words.quiet && !common.json)
    fmt::print("{}\n", printable(run.timeline.answer(), LineFeeds::kKept));
  if (!is_silent) fmt::print("{}\n", paint(run.timeline.sum(), Tone::kDim));
  if (run.timeline.ended() == "interrupted") return kInterrupted;
  return run.timeline.ended() == "end_turn" ? 0 : 1;
}

}  // namespace

void add_run(CLI::App& app, Common& common, int& exit_code) {
  const auto words = std::make_shared<Words>();
  CLI::App* run = add_state_command(
      app, common, exit_code, "run", "Give an agent a task and watch it work",
      "Makes a session, shows each step with its milliseconds, and prints the answer. Ctrl-C stops "
      "the agent; a second one\nleaves it alone.\n"
      "\n"
      "EXAMPLES\n"
      "  pons run \"how many processors does a sandbox have?\"\n"
      "  pons run -q \"what is 6 times 7?\"             the answer only\n"
      "  pons run --session ses_… \"and now the other\"  goes on with that session\n"
      "\n"
      "EXIT STATUS\n"
      "  0 the agent has answered; 1 it could not; 3 it waits for an answer or a decision of "
      "yours; 130 interrupted.",
      Prints::kData,
      [&common, words](const std::string& dir) { return run_task(dir, common, *words); });
  run->add_option("TASK", words->task, "What the agent is to do")->required();
  run->add_option("--session", words->session, "Go on with this session");
  run->add_option("--agent", words->agent, "Name of the agent (default: default)");
  run->add_option("--model", words->model, "Another model than the agent's");
  run->add_option("--project", words->project, "Id of the project (default: default)");
  run->add_flag("-q,--quiet", words->quiet, "Print the answer only");
}

}  // namespace pons::cli
