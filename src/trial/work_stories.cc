// Tasks that go well: order, memory, pieces, usage.

#include <fmt/format.h>

#include "stories.h"

namespace pons::trial {

namespace {

// ---- one and the same task, whoever does it

Reply play_task(const Asked& asked) {
  if (asked.step == "task")
    return asked.since.contains("proof-42")
               ? say("The file says proof-42.")
               : run_command(asked, "echo proof-$((40+2)) > ~/proof.txt; cat ~/proof.txt");
  if (asked.step == "memory")
    return say(asked.whole.contains("proof-42") ? "It said proof-42 before."
                                                : "I remember nothing.");
  if (asked.step == "again")
    return asked.since.contains("seen-42")
               ? say("It is still there.")
               : run_command(asked, "cat ~/proof.txt; echo seen-$((6*7))");
  return say("Nobody expected this.");
}

Task<Result<void>> do_task(Scene& scene, std::string session) {
  CO_TRY(const auto events,
         co_await scene.tell(session, "Write the file, and tell what is in it. [[task]]"));
  CO_TRY_VOID(expect(last_said(events) == "The file says proof-42.",
                     "the answer is: " + last_said(events)));
  bool is_done = false;
  for (const Json& ended : of_type(events, "tool.ended"))
    is_done = is_done || text_of(ended, "text").contains("proof-42");
  CO_TRY_VOID(expect(is_done, "no result of a tool holds what the command wrote"));
  CO_TRY(const std::string machine, co_await scene.find_machine(session));
  CO_TRY(const std::string text, co_await scene.read_file(machine, "proof.txt"));
  co_return expect(text == "proof-42\n", "the file holds: " + text);
}

Task<Result<void>> remember(Scene& scene, std::string session) {
  CO_TRY(const auto events, co_await scene.tell(session, "What did it say? [[memory]]"));
  co_return expect(last_said(events) == "It said proof-42 before.",
                   "the answer is: " + last_said(events));
}

Task<Result<void>> remember_in_new_process(Scene& scene, std::string session) {
  std::vector<std::string> former;
  if (scene.is_guest()) {
    CO_TRY(former, co_await scene.harness_jobs(session));
  }
  CO_TRY_VOID(co_await scene.kill_harness(session));
  CO_TRY_VOID(co_await remember(scene, session));
  if (!scene.is_guest()) co_return {};
  CO_TRY(const auto now, co_await scene.harness_jobs(session));
  co_return expect(!now.empty() && now != former, "it is the same process");
}

Task<Result<void>> work_again(Scene& scene, std::string session) {
  CO_TRY(const auto events, co_await scene.tell(session, "Look once more. [[again]]"));
  CO_TRY_VOID(
      expect(last_said(events) == "It is still there.", "the answer is: " + last_said(events)));
  const auto ended = of_type(events, "tool.ended");
  co_return expect(!ended.empty() && text_of(ended.back(), "text").contains("proof-42"),
                   "the last tool did not see the file");
}

Task<> tell_task(Scene& scene, Telling& telling) {
  const auto session = co_await scene.open("task");
  if (!telling.keep("an agent of it can be made",
                    expect(session.has_value(), session ? "" : session.error().describe())))
    co_return;
  if (!telling.keep("a question, a command, a changed file, an answer",
                    co_await do_task(scene, *session)))
    co_return;
  if (!telling.keep("a second turn remembers the first", co_await remember(scene, *session)))
    co_return;
  if (!telling.keep("a new process remembers both",
                    co_await remember_in_new_process(scene, *session)))
    co_return;
  if (!telling.keep("a tool can be used after that", co_await work_again(scene, *session)))
    co_return;
  const auto events = co_await scene.events(*session);
  telling.keep("each call has one result, each turn one end, and nothing is out of order",
               events ? check_log(*events) : Result<void>(events.error()));
}

// ---- pieces

constexpr std::string_view kVerse = "One after the other the pieces arrive before it is whole.";

Reply play_pieces(const Asked&) {
  return {.text = std::string(kVerse), .pieces = 10, .pause = std::chrono::milliseconds(40)};
}

Task<Result<void>> hear_pieces(Scene& scene) {
  CO_TRY(const std::string session, co_await scene.open("pieces"));
  CO_TRY_VOID(co_await scene.say(session, "Say it slowly. [[pieces]]"));
  CO_TRY(const auto heard, co_await scene.follow(session));
  std::string pieces;
  std::size_t count = 0;
  bool is_whole = false;
  for (const auto& [type, content] : heard) {
    if (type == "agent.delta") {
      CO_TRY_VOID(expect(!is_whole, "a piece comes after the whole text"));
      pieces += text_of(content, "text");
      ++count;
    }
    if (type == "agent.message") {
      is_whole = true;
      CO_TRY_VOID(expect(text_of(content, "text") == kVerse,
                         "the whole text is: " + text_of(content, "text")));
    }
  }
  CO_TRY_VOID(expect(is_whole, "the whole text never came"));
  // The last ones may come with the whole: what could be half a secret is held back.
  CO_TRY_VOID(expect(kVerse.starts_with(pieces), "the pieces are together: " + pieces));
  CO_TRY_VOID(expect(count > 1, "all of it came in one piece"));
  co_return expect(heard.back().first == "turn.ended", "the turn does not end");
}

Task<> tell_pieces(Scene& scene, Telling& telling) {
  telling.keep("text comes in pieces before it is whole", co_await hear_pieces(scene));
}

// ---- usage

Reply play_usage(const Asked& asked) {
  return asked.since.contains("used-4") ? say("All of it is counted.")
                                        : run_command(asked, "echo used-$((2+2))");
}

Task<Result<void>> count_usage(Scene& scene) {
  CO_TRY(const std::string session, co_await scene.open("usage"));
  CO_TRY_VOID(co_await scene.tell(session, "Use what you want. [[usage]]"));
  CO_TRY(const Json shown, co_await scene.show(session));
  const Json& usage = shown.at("usage");
  const models::Usage& told = scene.record("usage").usage;
  const std::string said = fmt::format("{} + {} + {}", told.input, told.cache_read, told.output);
  const auto sum = [](const Json& of) {
    return fmt::format("{} + {} + {}", of.value("input_tokens", 0),
                       of.value("cache_read_tokens", 0), of.value("output_tokens", 0));
  };
  CO_TRY_VOID(expect(sum(usage) == said,
                     fmt::format("the model told {}, the session has {}", said, sum(usage))));
  // The gateway's book is written some moments later.
  std::string booked;
  for (const TimePoint deadline = scene.loop().now() + kPatience; scene.loop().now() < deadline;) {
    CO_TRY(const Json book,
           co_await scene.pons().ask(
               "gateway", "GET", "/model-usage?project=default&agent=" + scene.name_of("usage")));
    Json total = {{"input_tokens", 0}, {"cache_read_tokens", 0}, {"output_tokens", 0}};
    for (const Json& row : book.at("usage"))
      for (auto& [key, value] : total.items())
        value = value.get<std::int64_t>() + row.value(key, std::int64_t{0});
    booked = sum(total);
    if (booked == said) co_return {};
    co_await scene.loop().sleep_for(std::chrono::milliseconds(200));
  }
  co_return expect(false, fmt::format("the model told {}, the gateway has {}", said, booked));
}

Task<> tell_usage(Scene& scene, Telling& telling) {
  telling.keep("what was used is what the gateway counted", co_await count_usage(scene));
}

const Story kStories[] = {
    {.name = "task", .tell = tell_task, .script = play_task, .is_alone = true},
    {.name = "pieces", .tell = tell_pieces, .script = play_pieces},
    {.name = "usage", .tell = tell_usage, .script = play_usage},
};

}  // namespace

std::span<const Story> work_stories() {
  return kStories;
}

}  // namespace pons::trial
