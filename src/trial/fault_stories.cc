// What goes wrong: people who interrupt, processes that die, models that fail.

#include <array>

#include <fmt/format.h>

#include "stories.h"

namespace pons::trial {

namespace {

// ---- interrupts

Reply play_talk(const Asked& asked) {
  if (asked.step == "talk")
    return {
        .text = std::string(3'000, '.'), .pieces = 1'000, .pause = std::chrono::milliseconds(100)};
  return say("I am here.");
}

Task<Result<void>> interrupt_talk(Scene& scene, std::string session) {
  CO_TRY_VOID(co_await scene.say(session, "Talk for long. [[talk]]"));
  const auto talks = [&] { return scene.record("talk").pieces > 5; };
  CO_TRY_VOID(expect(co_await scene.wait_until(talks), "the model is not asked"));
  CO_TRY_VOID(co_await scene.interrupt(session));
  CO_TRY(const Json shown, co_await scene.wait_until_idle(session, kInterruptTime));
  co_return expect(shown.value("ended", "") == "interrupted",
                   "the turn ended with " + shown.value("ended", ""));
}

Task<Result<void>> model_is_left(Scene& scene) {
  const auto is_left = [&] { return scene.record("talk").hang_ups > 0; };
  co_return expect(co_await scene.wait_until(is_left, kInterruptTime), "it still talks");
}

Task<Result<void>> still_answers(Scene& scene, std::string session) {
  CO_TRY(const auto events, co_await scene.tell(session, "Are you there? [[there]]"));
  co_return expect(last_said(events) == "I am here.", "the answer is: " + last_said(events));
}

Task<> tell_talk(Scene& scene, Telling& telling) {
  const auto session = co_await scene.open("talk");
  if (!session) {
    telling.keep("an interrupt ends what it says", session.error());
    co_return;
  }
  if (!telling.keep("an interrupt ends what it says", co_await interrupt_talk(scene, *session)))
    co_return;
  telling.keep("the model is told to stop", co_await model_is_left(scene));
  telling.keep("it answers after an interrupt", co_await still_answers(scene, *session));
}

// A number that stands in the command line of nobody else.
constexpr std::string_view kLongSleep = "sleep 1000.7042";

Reply play_sleep(const Asked& asked) {
  // Some refuse a command that begins with waiting.
  if (asked.step == "sleep")
    return run_command(asked, fmt::format("sh -c '{}; echo woke'", kLongSleep));
  return say("I am here.");
}

// 1: it sleeps, 0: it does not; no machine is no sleep.
Task<Result<int>> sleepers(Scene& scene, std::string session) {
  const auto machine = co_await scene.find_machine(session);
  if (!machine && machine.error().code == ErrorCode::kNotFound) co_return 0;
  if (!machine) co_return machine.error();
  const auto ran = co_await scene.run(
      *machine,
      {"sh", "-c", "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null"});
  if (!ran) co_return ran.error();
  co_return ran->output.contains("\n" + std::string(kLongSleep)) ? 1 : 0;
}

Task<Result<void>> wait_for_sleepers(Scene& scene, std::string session, int wanted,
                                     Duration patience, const char* otherwise) {
  for (const TimePoint deadline = scene.loop().now() + patience;;) {
    const auto count = co_await sleepers(scene, session);
    if (count && *count == wanted) co_return {};
    if (scene.loop().now() > deadline)
      co_return expect(false, count ? otherwise : count.error().describe());
    co_await scene.loop().sleep_for(std::chrono::milliseconds(100));
  }
}

Task<Result<void>> interrupt_sleep(Scene& scene, std::string session) {
  CO_TRY_VOID(co_await scene.say(session, "Sleep for long. [[sleep]]"));
  CO_TRY_VOID(co_await wait_for_sleepers(scene, session, 1, kPatience, "the command never ran"));
  CO_TRY_VOID(co_await scene.interrupt(session));
  CO_TRY(const Json shown, co_await scene.wait_until_idle(session, kInterruptTime));
  co_return expect(shown.value("ended", "") == "interrupted",
                   "the turn ended with " + shown.value("ended", ""));
}

Task<> tell_sleep(Scene& scene, Telling& telling) {
  const auto session = co_await scene.open("sleep");
  if (!session) {
    telling.keep("an interrupt ends a tool", session.error());
    co_return;
  }
  if (!telling.keep("an interrupt ends a tool", co_await interrupt_sleep(scene, *session)))
    co_return;
  telling.keep("the command of that tool is dead",
               co_await wait_for_sleepers(scene, *session, 0, kInterruptTime, "it still runs"));
  telling.keep("it answers after an interrupted tool", co_await still_answers(scene, *session));
}

// ---- death

Reply play_death(const Asked& asked) {
  // Whoever is told of a command that may have run does not run it again.
  if (asked.since.contains("x >>") || asked.since.contains("over-2")) return say("Enough of that.");
  // A tool of its own may be at work before anybody has heard of it: then one is told to look.
  if (asked.since.contains("look whether it is done"))
    return run_command(asked, "grep -q x ~/lines.txt || echo x >> ~/lines.txt; echo over-$((1+1))");
  return run_command(asked, "echo x >> ~/lines.txt; sleep 4; echo over-$((1+1))");
}

Task<Result<void>> die_in_tool(Scene& scene) {
  CO_TRY(const std::string session, co_await scene.open("death"));
  CO_TRY_VOID(co_await scene.say(session, "Write a line, and wait. [[death]]"));
  std::string machine;
  for (const TimePoint deadline = scene.loop().now() + kPatience;;) {
    if (const auto found = co_await scene.find_machine(session)) {
      machine = *found;
      const auto lines = co_await scene.read_file(machine, "lines.txt");
      if (lines && *lines == "x\n") break;
    }
    CO_TRY_VOID(expect(scene.loop().now() < deadline, "the command never ran"));
    co_await scene.loop().sleep_for(std::chrono::milliseconds(50));
  }
  CO_TRY_VOID(co_await scene.kill_harness(session));
  CO_TRY_VOID(co_await scene.finish(session));
  // Long enough for a second run that somebody may have begun.
  co_await scene.loop().sleep_for(std::chrono::seconds(2));
  CO_TRY(const std::string lines, co_await scene.read_file(machine, "lines.txt"));
  co_return expect(lines == "x\n", "the command ran more than once: " + lines);
}

Task<> tell_death(Scene& scene, Telling& telling) {
  telling.keep("one that dies in a tool goes on, and runs nothing twice",
               co_await die_in_tool(scene));
}

// ---- models that fail

constexpr std::size_t kFailuresBeforeAnswer = 2;

// A story of a model that fails, for some calls or for good.
template <Reply (*How)()>
Reply fail_twice(const Asked& asked) {
  return asked.number < kFailuresBeforeAnswer ? How() : say("At last.");
}
template <Reply (*How)()>
Reply fail_always(const Asked&) {
  return How();
}
Reply refuse_401() {
  return {.refusal = 401};
}
Reply refuse_429() {
  return {.refusal = 429};
}
Reply refuse_500() {
  return {.refusal = 500};
}
Reply keep_silent() {
  return {.is_silent = true};
}
Reply garble() {
  return {.is_garbled = true};
}

Task<Result<void>> recover(Scene& scene, std::string story) {
  CO_TRY(const std::string session, co_await scene.open(story));
  CO_TRY(const auto events, co_await scene.tell(session, "Say something. [[fail]]"));
  CO_TRY_VOID(expect(last_said(events) == "At last.", "the answer is: " + last_said(events)));
  co_return expect(scene.record(story).calls > kFailuresBeforeAnswer, "nothing has failed");
}

// Trying again is well, for a time.
constexpr Duration kFailingTime = std::chrono::minutes(10);

// `reasons`: one of them.
Task<Result<void>> fail(Scene& scene, std::string story, std::string_view reasons) {
  CO_TRY(const std::string session, co_await scene.open(story));
  CO_TRY_VOID(co_await scene.say(session, "Say something. [[fail]]"));
  CO_TRY(const Json shown, co_await scene.wait_until_idle(session, kFailingTime));
  CO_TRY(const auto events, co_await scene.events(session));
  CO_TRY_VOID(check_log(events));
  const std::string ended = shown.value("ended", "");
  CO_TRY_VOID(expect(reasons.contains(ended),
                     fmt::format("the turn ended with {}: {}", ended,
                                 text_of(of_type(events, "turn.ended").back(), "message"))));
  co_return expect(scene.record(story).calls > 0, "the model was never asked");
}

// It is told what is wrong, and can be left before it is given up.
Task<Result<void>> hear_of_refusal(Scene& scene) {
  CO_TRY(const std::string session, co_await scene.open("some-401"));
  CO_TRY_VOID(co_await scene.say(session, "Say something. [[fail]]"));
  CO_TRY_VOID(co_await scene.wait_for_event(session, "model.failed", "refuses the key"));
  CO_TRY_VOID(co_await scene.interrupt(session));
  CO_TRY_VOID(co_await scene.wait_until_idle(session, kInterruptTime));
  CO_TRY(const auto events, co_await scene.events(session));
  co_return check_log(events);
}

Task<> tell_some_401(Scene& scene, Telling& telling) {
  telling.keep("a key that the provider refuses is told", co_await hear_of_refusal(scene));
}
Task<> tell_401(Scene& scene, Telling& telling) {
  telling.keep("a key that the provider refuses ends the turn, in the end",
               co_await fail(scene, "refused-401", "model_failed retries_exhausted"));
}
Task<> tell_some_429(Scene& scene, Telling& telling) {
  telling.keep("after too many calls it is asked again", co_await recover(scene, "some-429"));
}
Task<> tell_some_500(Scene& scene, Telling& telling) {
  telling.keep("a provider that fails is asked again", co_await recover(scene, "some-500"));
}
Task<> tell_some_silence(Scene& scene, Telling& telling) {
  telling.keep("a provider that is silent is asked again", co_await recover(scene, "some-silence"));
}
Task<> tell_some_garble(Scene& scene, Telling& telling) {
  telling.keep("an answer that nobody can read is asked for again",
               co_await recover(scene, "some-garble"));
}
Task<> tell_429(Scene& scene, Telling& telling) {
  telling.keep("too many calls end the turn, in the end",
               co_await fail(scene, "refused-429", "retries_exhausted"));
}
Task<> tell_500(Scene& scene, Telling& telling) {
  telling.keep("a provider that goes on failing ends the turn, in the end",
               co_await fail(scene, "refused-500", "retries_exhausted"));
}
Task<> tell_silence(Scene& scene, Telling& telling) {
  telling.keep("a provider that stays silent ends the turn, in the end",
               co_await fail(scene, "silence", "retries_exhausted"));
}
Task<> tell_garble(Scene& scene, Telling& telling) {
  telling.keep("answers that nobody can read end the turn, in the end",
               co_await fail(scene, "garble", "retries_exhausted"));
}

// ---- budgets

// Harnesses write long prompts, and a call whose prompt alone is too dear is not made.
constexpr std::int64_t kBudgetTokens = 150'000;
constexpr std::int64_t kDearTokens = 40'000;

Reply play_budget(const Asked& asked) {
  Reply reply = run_command(asked, fmt::format("echo dear-{}", asked.number));
  reply.dear = kDearTokens;
  return reply;
}

Task<Result<void>> spend(Scene& scene) {
  CO_TRY(const std::string session, co_await scene.open("budget"));
  CO_TRY_VOID(co_await scene.tell(session, "Spend all of it. [[budget]]", "budget_reached"));
  // Without those for a title, which cost next to nothing.
  const std::size_t calls = scene.record("budget").offered.size();
  constexpr std::size_t kAffordable = kBudgetTokens / kDearTokens + 1;
  co_return expect(calls > 0 && calls <= kAffordable,
                   fmt::format("the model was asked {} times", calls));
}

Task<> tell_budget(Scene& scene, Telling& telling) {
  telling.keep("a budget stops it", co_await spend(scene));
}

const Story kStories[] = {
    {.name = "talk", .tell = tell_talk, .script = play_talk},
    {.name = "sleep", .tell = tell_sleep, .script = play_sleep},
    {.name = "death", .tell = tell_death, .script = play_death, .of_guests = true},
    {.name = "budget", .tell = tell_budget, .script = play_budget, .budget_tokens = kBudgetTokens},
    {.name = "some-401", .tell = tell_some_401, .script = fail_always<refuse_401>},
    {.name = "some-429", .tell = tell_some_429, .script = fail_twice<refuse_429>},
    {.name = "some-500", .tell = tell_some_500, .script = fail_twice<refuse_500>},
    {.name = "some-silence", .tell = tell_some_silence, .script = fail_twice<keep_silent>},
    {.name = "some-garble", .tell = tell_some_garble, .script = fail_twice<garble>},
    {.name = "refused-401", .tell = tell_401, .script = fail_always<refuse_401>, .is_long = true},
    {.name = "refused-429", .tell = tell_429, .script = fail_always<refuse_429>, .is_long = true},
    {.name = "refused-500", .tell = tell_500, .script = fail_always<refuse_500>, .is_long = true},
    {.name = "silence", .tell = tell_silence, .script = fail_always<keep_silent>, .is_long = true},
    {.name = "garble", .tell = tell_garble, .script = fail_always<garble>, .is_long = true},
};

}  // namespace

std::span<const Story> fault_stories() {
  return kStories;
}

}  // namespace pons::trial
