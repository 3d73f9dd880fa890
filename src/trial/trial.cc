#include "pons/trial/trial.h"

#include <algorithm>
#include <deque>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/linux/run_task.h"
#include "scene.h"
#include "scripted_model.h"
#include "stories.h"
#include "throwaway_pons.h"

namespace pons::trial {

namespace {

using Tell = std::function<void(const Finding&)>;

// As many as a small machine has memory for.
constexpr std::size_t kAtOnce = 4;
// Of all that is told at one place.
constexpr Duration kWholeTime = std::chrono::minutes(30);

std::vector<Story> stories_for(Place place, const Order& order) {
  std::vector<Story> all;
  for (const auto stories : {work_stories(), wall_stories(), fault_stories()})
    for (const Story& story : stories)
      if (story.name.contains(order.only) && (order.with_long || !story.is_long) &&
          (place != Place::kNative || !story.of_guests))
        all.push_back(story);
  return all;
}

std::vector<Place> places_of(const Order& order) {
  if (!order.recipe) return {Place::kNative};
  std::vector<Place> places;
  for (const harness::Placement placement : order.recipe->placements)
    places.push_back(placement == harness::Placement::kBrain ? Place::kBrain : Place::kSandbox);
  return places;
}

Json agent_of(const Order& order, Place place, const Story& story) {
  Json agent = {{"model", name_of(place, story.name)}, {"harness", order.harness}};
  if (place == Place::kSandbox) agent["placement"] = "sandbox";
  if (story.budget_tokens > 0) agent["budget_tokens"] = story.budget_tokens;
  return agent;
}

// Of the Pons; each story has an agent and a model at each place.
Json settings_for(const Order& order, std::uint16_t model_port) {
  Json settings = {{"log", {{"level", "warn"}}}, {"gateway", {{"unknown_price", "dearest"}}}};
  // A provider for each, too: one that refuses a key, or fails too often, is left alone for a time.
  // Its silence is to be noticed while somebody waits for it.
  const Json provider = {{"kind", "openai-compatible"},
                         {"url", fmt::format("http://127.0.0.1:{}/v1", model_port)},
                         {"protocols", Json::array({"chat"})},
                         {"first_event_seconds", 2},
                         {"next_event_seconds", 5}};
  for (const Place place : places_of(order))
    for (const Story& story : stories_for(place, order)) {
      const std::string name = name_of(place, story.name);
      settings["providers"][name] = provider;
      settings["models"][name] = {{"try", Json::array({fmt::format("{0}/{0}", name)})}};
      settings["agents"][name] = agent_of(order, place, story);
    }
  if (!order.own_recipe.empty())
    if (auto recipe = parse_json(order.own_recipe))
      settings["harnesses"][order.harness] = std::move(*recipe);
  return settings;
}

// All of a trial.
struct Trial {
  linux::Loop& loop;
  const Order& order;
  const Tell& tell;
  ScriptedModel& model;
  ThrowawayPons& pons;
  std::vector<Finding> findings = {};
};

Task<> tell_story(Trial& trial, Scene& scene, Story story) {
  TimePoint begun = trial.loop.now();
  Telling telling([&](std::string_view promise, const Result<void>& outcome) {
    const TimePoint now = trial.loop.now();
    Finding finding{.place = std::string(word_of(scene.place())),
                    .story = std::string(story.name),
                    .promise = std::string(promise),
                    .is_kept = outcome.has_value(),
                    .why = outcome                           ? std::string()
                           : outcome.error().message.empty() ? outcome.error().describe()
                                                             : outcome.error().message,
                    .took = std::chrono::duration_cast<std::chrono::milliseconds>(now - begun)};
    begun = now;
    trial.tell(finding);
    trial.findings.push_back(std::move(finding));
  });
  co_await story.tell(scene, telling);
}

// One story after the other, as long as there are any.
Task<> tell_some(Trial& trial, Scene& scene, std::deque<Story>& left) {
  while (!left.empty()) {
    Story story = std::move(left.front());
    left.pop_front();
    co_await tell_story(trial, scene, std::move(story));
  }
}

Task<Result<void>> tell_at(Trial& trial, Place place) {
  Scene scene(trial.loop, trial.pons, trial.model, trial.order.harness, place);
  std::deque<Story> left;
  for (Story& story : stories_for(place, trial.order)) {
    trial.model.play(scene.name_of(story.name), story.script);
    if (story.is_alone)
      co_await tell_story(trial, scene, std::move(story));
    else
      left.push_back(std::move(story));
  }
  linux::TaskGroup group(trial.loop);
  for (std::size_t i = 0; i < kAtOnce; ++i) group.spawn(tell_some(trial, scene, left));
  if (co_await group.wait_until_empty(trial.loop.now() + kWholeTime) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, "test harness",
                         fmt::format("it takes more than half an hour ({})", word_of(place)));
  co_return {};
}

Task<Result<void>> tell_all(Trial& trial) {
  CO_TRY_VOID(co_await trial.pons.make_ready(trial.order.layers, trial.order.templates));
  for (const Place place : places_of(trial.order)) CO_TRY_VOID(co_await tell_at(trial, place));
  co_return {};
}

Task<> heed_stop(linux::Loop& loop, int fd, linux::Event& stopped) {
  auto watch = linux::Watch::create(loop, fd);
  if (!watch) co_return;
  co_await watch->readable(kNever);
  stopped.set();
}

Task<> tell_until_done(Trial& trial, Result<void>& outcome, linux::Event& over) {
  outcome = co_await tell_all(trial);
  over.set();
}

Task<Result<void>> tell_or_stop(Trial& trial, int stop_fd) {
  Result<void> outcome =
      make_error(ErrorCode::kUnavailable, "test harness", "it was stopped before the end");
  linux::Event over(trial.loop);
  linux::TaskGroup tasks(trial.loop);
  if (stop_fd >= 0) tasks.spawn(heed_stop(trial.loop, stop_fd, over));
  tasks.spawn(tell_until_done(trial, outcome, over));
  co_await over.wait(kNever);
  tasks.cancel_all();  // they write to what is here
  co_return outcome;
}

}  // namespace

Result<std::vector<Finding>> try_harness(const Order& order, int stop_fd, const Tell& tell) {
  const auto loop = TRY(linux::Loop::create());
  const auto model = TRY(ScriptedModel::open(*loop));
  const auto pons = TRY(ThrowawayPons::start(*loop, order, settings_for(order, model->port())));
  Trial trial{.loop = *loop, .order = order, .tell = tell, .model = *model, .pons = *pons};
  TRY_VOID(linux::run_to_end(*loop, tell_or_stop(trial, stop_fd)));
  return std::move(trial.findings);
}

}  // namespace pons::trial
