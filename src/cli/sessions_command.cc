#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "conversation.h"
#include "pons/linux/run_task.h"
#include "terminal.h"
#include "timeline.h"

namespace pons::cli {

namespace {

struct Words {
  std::string session;
  std::string project = "default";
  std::string text;
  std::string message;
  std::int64_t at = 0;
  bool follow = false;
  bool all = false;
};

using State = const std::string&;

Result<Json> ask_brain(State dir, const Words& words, const char* method, const std::string& rest,
                       const Json* body = nullptr) {
  return ask(dir, "brain", method, session_target(words.project, rest),
             body == nullptr ? std::string() : dump_json(*body));
}

std::string below(const Words& words, const char* what = "") {
  return fmt::format("/{}{}", words.session, what);
}

Result<int> list(State dir, const Common& common, const Words& words) {
  const Json answer = TRY(ask_brain(dir, words, "GET", words.all ? "?archived=1" : ""));
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"SESSION", Tone::kDim},
                                          {"AGENT", Tone::kDim},
                                          {"STATUS", Tone::kDim},
                                          {"EVENTS", Tone::kDim},
                                          {"CHANGED", Tone::kDim},
                                          {"TITLE", Tone::kDim}}};
  for (const Json& session : answer.at("sessions")) {
    const auto status = session.at("status").get<std::string>();
    const auto ended = session.at("ended").get<std::string>();
    rows.push_back({session.at("id").get<std::string>(),
                    session.at("agent").get<std::string>(),
                    {status == "idle" && !ended.empty() ? ended : status,
                     status == "idle" ? Tone::kPlain : Tone::kGood},
                    fmt::format("{}", session.at("head").get<std::int64_t>()),
                    age_of(session.at("updated_unix_ms").get<std::int64_t>()),
                    session.at("title").get<std::string>()});
  }
  print_table(rows);
  return 0;
}

Result<int> show(State dir, const Common& common, const Words& words) {
  const Json session = TRY(ask_brain(dir, words, "GET", below(words)));
  if (common.json) {
    fmt::print("{}\n", dump_json(session));
    return 0;
  }
  std::vector<std::vector<Cell>> rows;
  for (const auto& [name, value] : session.items())
    rows.push_back(
        {{name, Tone::kDim}, value.is_string() ? value.get<std::string>() : dump_json(value)});
  print_table(rows);
  return 0;
}

// From the first one on.
Result<void> each_event(State dir, const Words& words,
                        const std::function<void(const Json&)>& take) {
  std::int64_t after = 0;
  for (bool more = true; more;) {
    const Json page = TRY(
        ask_brain(dir, words, "GET", below(words, fmt::format("/events?after={}", after).c_str())));
    for (const Json& event : page.at("events")) {
      take(event);
      after = event.at("seq").get<std::int64_t>();
    }
    more = page.at("more").get<bool>() && !page.at("events").empty();
  }
  return {};
}

Result<int> show_log(State dir, const Common& common, const Words& words) {
  Timeline timeline(words.all ? Timeline::Shows::kAll : Timeline::Shows::kSteps);
  const auto take = [&](const Json& event) {
    if (common.json)
      fmt::print("{}\n", dump_json(event));
    else
      timeline.take(event);
  };
  if (words.follow) {
    const auto loop = TRY(linux::Loop::create());
    Conversation conversation(*loop, dir, words.project, words.session);
    const auto done = linux::run_to_end(
        *loop, conversation.follow(0, [&](std::string_view type, const Json& event) {
          if (type != "agent.delta") take(event);
          return type == "session.archived";
        }));
    if (!done) return done.error();
    return 0;
  }
  TRY_VOID(each_event(dir, words, take));
  return 0;
}

Result<int> send(State dir, const Words& words, const Json& event) {
  const Json body = {{"events", Json::array({event})}};
  TRY_VOID(ask_brain(dir, words, "POST", below(words, "/events"), &body));
  return 0;
}

// The call that waits for this, if the caller did not say which.
Result<std::int64_t> open_call(State dir, const Words& words, Timeline::Question::Kind kind) {
  if (words.at != 0) return words.at;
  Timeline timeline(Timeline::Shows::kNothing);
  TRY_VOID(each_event(dir, words, [&](const Json& event) { timeline.take(event); }));
  std::int64_t found = 0;
  std::string all;
  for (const auto& [call, question] : timeline.open()) {
    if (question.kind != kind) continue;
    all += fmt::format("\n  --call {}  {}", call, printable(question.text));
    found = found == 0 ? call : -1;
  }
  if (found > 0) return found;
  if (found < 0)
    return make_error(ErrorCode::kInvalid, "answer", "several calls wait; say which:" + all);
  return make_error(ErrorCode::kInvalid, "answer",
                    kind == Timeline::Question::Kind::kAnswer ? "the agent has asked nothing"
                                                              : "no call waits for a decision");
}

Result<int> answer(State dir, const Words& words) {
  const std::int64_t call = TRY(open_call(dir, words, Timeline::Question::Kind::kAnswer));
  return send(dir, words, {{"type", "user.answer"}, {"call", call}, {"text", words.text}});
}

Result<int> decide(State dir, const Words& words) {
  const std::int64_t call = TRY(open_call(dir, words, Timeline::Question::Kind::kDecision));
  Json event = {{"type", "user.decision"}, {"call", call}, {"allow", words.text == "allow"}};
  if (!words.message.empty()) event["message"] = words.message;
  return send(dir, words, event);
}

Result<int> fork_session(State dir, const Common& common, const Words& words) {
  const Json body = words.at == 0 ? Json::object() : Json{{"at", words.at}};
  const Json made = TRY(ask_brain(dir, words, "POST", below(words, "/fork"), &body));
  fmt::print("{}\n", common.json ? dump_json(made) : made.at("id").get<std::string>());
  return 0;
}

Result<int> archive(State dir, const Words& words) {
  TRY_VOID(ask_brain(dir, words, "POST", below(words, "/archive")));
  return 0;
}

}  // namespace

void add_sessions(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* group = app.add_subcommand("sessions", "Look at sessions of agents, and steer them");
  group->require_subcommand(1);
  const auto words = std::make_shared<Words>();
  const auto add = [&](const char* name, const char* summary, const char* text, Prints prints,
                       std::function<Result<int>(State)> work) {
    CLI::App* command =
        add_state_command(*group, common, exit_code, name, summary, text, prints, std::move(work));
    command->add_option("--project", words->project, "Id of the project (default: default)");
    return command;
  };
  const auto add_session = [&](CLI::App* command) {
    command->add_option("SESSION", words->session, "ses_…")->required();
    return command;
  };
  add("ls", "List sessions, the newest first", "One line for each session.", Prints::kData,
      [&common, words](State dir) { return list(dir, common, *words); })
      ->add_flag("-a,--all", words->all, "Also archived ones");
  add_session(add("show", "Show what is known of a session", "Status, usage and times.",
                  Prints::kData,
                  [&common, words](State dir) { return show(dir, common, *words); }));
  CLI::App* logs = add_session(
      add("logs", "Show what happened in a session", "Each step with its milliseconds.",
          Prints::kData, [&common, words](State dir) { return show_log(dir, common, *words); }));
  logs->add_flag("-f,--follow", words->follow, "Go on until Ctrl-C");
  logs->add_flag("-a,--all", words->all, "Also what is of interest only when looking for a fault");
  CLI::App* to_send =
      add_session(add("send", "Say something to a session",
                      "Does not wait for the answer; `pons run "
                      "--session` does.",
                      Prints::kText, [words](State dir) {
                        return send(dir, *words, {{"type", "user.message"}, {"text", words->text}});
                      }));
  to_send->add_option("TEXT", words->text)->required();
  CLI::App* to_answer = add_session(add("answer", "Answer a question of an agent",
                                        "Answers the open question of ask_human.", Prints::kText,
                                        [words](State dir) { return answer(dir, *words); }));
  to_answer->add_option("TEXT", words->text)->required();
  to_answer->add_option("--call", words->at, "Number of the call, if several are open");
  CLI::App* to_decide =
      add_session(add("decide", "Allow a call of an agent, or not",
                      "Decides on the call that waits for a person's permission.", Prints::kText,
                      [words](State dir) { return decide(dir, *words); }));
  to_decide->add_option("VERDICT", words->text, "allow or deny")
      ->required()
      ->check(CLI::IsMember({"allow", "deny"}));
  to_decide->add_option("--message", words->message, "Why not, for the agent");
  to_decide->add_option("--call", words->at, "Number of the call, if several are open");
  add_session(add("interrupt", "Stop what a session is doing",
                  "Ends its turn; what has happened stays. Commands that run are ended.",
                  Prints::kText,
                  [words](State dir) { return send(dir, *words, {{"type", "user.interrupt"}}); }));
  CLI::App* to_fork = add_session(add(
      "fork", "Continue from a point of a session in a new one",
      "The new session has the old one's conversation up to that event. Sandboxes that are still "
      "there are copied: with\ntheir files of now, or, when commands were run since, with those of "
      "the last checkpoint before that event\n(`checkpoints: true` of the agent). Prints its id.",
      Prints::kData, [&common, words](State dir) { return fork_session(dir, common, *words); }));
  to_fork->add_option("--at", words->at, "Number of the last event (default: all of them)");
  add_session(add("archive", "Close a session for good", "It stays readable.", Prints::kText,
                  [words](State dir) { return archive(dir, *words); }));
  CLI::App* to_replay = add_session(
      add("replay", "Compare a session with what this version would do",
          "The same as `pons replay`.", Prints::kData, [&common, words](State dir) {
            return replay_session(dir, common, words->project, words->session, words->text);
          }));
  to_replay->add_option("--through", words->text,
                        "Run its commands again on this template, or at the warden of this socket");
}

}  // namespace pons::cli
