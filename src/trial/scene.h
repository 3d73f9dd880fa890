#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pons/trial/trial.h"
#include "scripted_model.h"
#include "throwaway_pons.h"

namespace pons::trial {

// How long anything may take that is to happen at once, on a machine that is busy.
inline constexpr Duration kPatience = std::chrono::minutes(2);
// An interrupt ends whatever is under way within five seconds, and moments.
inline constexpr Duration kInterruptTime = std::chrono::seconds(15);

enum class Place : std::uint8_t { kNative, kBrain, kSandbox };
std::string_view word_of(Place place);
// Of the agent and the model of a story.
std::string name_of(Place place, std::string_view story);

// One harness at one place, as stories see it.
class Scene {
 public:
  Scene(linux::Loop& loop, ThrowawayPons& pons, ScriptedModel& model, std::string harness,
        Place place);

  Place place() const { return place_; }
  bool is_guest() const { return place_ != Place::kNative; }
  const std::string& harness() const { return harness_; }
  linux::Loop& loop() { return loop_; }
  ThrowawayPons& pons() { return pons_; }
  ScriptedModel& model() { return model_; }

  std::string name_of(std::string_view story) const { return trial::name_of(place_, story); }
  const ScriptedModel::Record& record(std::string_view story) {
    return model_.record(name_of(story));
  }

  // ---- sessions; each with the agent of a story
  Task<Result<std::string>> open(std::string story);
  Task<Result<void>> say(std::string session, std::string words);
  Task<Result<void>> interrupt(std::string session);
  Task<Result<Json>> show(std::string session);
  Task<Result<std::vector<Json>>> events(std::string session);
  // Until the turn is over: its events and those before. Refused when it ended otherwise.
  Task<Result<std::vector<Json>>> finish(std::string session, std::string reason = "end_turn");
  Task<Result<std::vector<Json>>> tell(std::string session, std::string words,
                                       std::string reason = "end_turn");
  Task<Result<Json>> wait_until_idle(std::string session, Duration patience = kPatience);
  // The first event of that type, with that text somewhere in it.
  Task<Result<Json>> wait_for_event(std::string session, std::string type, std::string with = {});
  // What a follower hears until a turn ends: types, and contents.
  Task<Result<std::vector<std::pair<std::string, Json>>>> follow(std::string session);
  // False after kPatience.
  Task<bool> wait_until(std::function<bool()> condition, Duration patience = kPatience);

  // ---- sandboxes
  Task<Result<std::string>> find_cell(std::string session);     // of the harness
  Task<Result<std::string>> find_machine(std::string session);  // where commands run
  // The processes of the harness, as jobs that run.
  Task<Result<std::vector<std::string>>> harness_jobs(std::string session);
  // Of native, the brain.
  Task<Result<void>> kill_harness(std::string session);
  Task<Result<std::string>> read_file(std::string sandbox, std::string path);
  Task<Result<void>> write_file(std::string sandbox, std::string path, std::string text);
  struct Ran {
    int code = -1;
    std::string output;
  };
  Task<Result<Ran>> run(std::string sandbox, std::vector<std::string> argv);

 private:
  Task<Result<std::vector<sandbox::SandboxInfo>>> sandboxes_of(std::string session);

  linux::Loop& loop_;
  ThrowawayPons& pons_;
  ScriptedModel& model_;
  std::string harness_;
  Place place_;
};

// ---- what logs say

std::vector<Json> of_type(const std::vector<Json>& events, std::string_view type);
std::string text_of(const Json& event, const char* key);
std::string last_said(const std::vector<Json>& events);
// Numbered without a gap; each call has one end, each message of a person one end of a turn.
Result<void> check_log(const std::vector<Json>& events);

// An error with these words where it is false.
Result<void> expect(bool condition, std::string otherwise);

}  // namespace pons::trial
