#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/gateway/settings.h"
#include "pons/models/answer.h"

namespace pons::gateway {

// What is known of one model of one provider from the calls so far. After some failures in a row it
// is left alone for a while, and then one call finds out whether it is well again.
class Health {
 public:
  bool may_try(TimePoint now) const { return open_until_ <= now && !probing_; }
  TimePoint open_until() const { return open_until_; }
  void begin() { probing_ = failures_ >= kFailuresMax; }  // a call goes there
  void succeed();
  void fail(TimePoint now);
  void leave() { probing_ = false; }  // the call ended without telling anything
  void rest(TimePoint until) { open_until_ = std::max(open_until_, until); }

 private:
  static constexpr unsigned kFailuresMax = 5;
  static constexpr Duration kFirstRest = std::chrono::seconds(5);
  static constexpr Duration kLongestRest = std::chrono::minutes(2);
  unsigned failures_ = 0;
  Duration rest_ = kFirstRest;
  TimePoint open_until_{};
  bool probing_ = false;
};

// One deployment and what is known of it.
struct Candidate {
  Deployment deployment;
  Health health;
  std::size_t active = 0;  // calls under way
};

// Who may answer a call for a model, in the order in which they are to be asked.
class Routing {
 public:
  explicit Routing(ModelSettings settings);

  const ModelSettings& settings() const { return settings_; }

  // `affinity` names a conversation: it meets the same deployment each time, as long as that is
  // well, because that one has its prompt in its cache. kNotFound with the names that exist.
  using Line = std::vector<std::shared_ptr<Candidate>>;
  Result<Line> candidates(std::string_view model, std::string_view affinity);
  // Whether conversations with it are spread, so that their names matter.
  bool spreads(std::string_view model) const;

  // Which deployment made a response for a project, for the next request that builds on it; null
  // when nobody here knows. Some thousands are remembered.
  void remember(std::string_view project, std::string_view response_id,
                std::shared_ptr<Candidate> candidate);
  std::shared_ptr<Candidate> maker_of(std::string_view project, std::string_view response_id) const;

  std::vector<std::string> model_names() const;
  // Those that the configuration names, with the name of their route.
  void for_each(const std::function<void(const std::string&, const Candidate&)>& visit) const;

 private:
  std::shared_ptr<Candidate> candidate_of(std::string_view provider, std::string_view model);

  ModelSettings settings_;
  std::map<std::string, Line, std::less<>> lines_;  // of the routes, in the order written
  // Asked for by clients without a route: by "provider/model", some hundreds of them.
  std::map<std::string, std::shared_ptr<Candidate>, std::less<>> others_;
  std::map<std::string, std::shared_ptr<Candidate>, std::less<>> makers_;  // by project and id
  std::list<std::string> remembered_;                                      // oldest first
};

// Which provider a call most likely went to, by what was asked for and what answered; empty when
// the settings do not say.
std::string provider_of(const ModelSettings& settings, std::string_view asked,
                        std::string_view answered);

// What comes after a failed try.
enum class NextStep : std::uint8_t {
  kTellClient,  // nobody else would answer otherwise
  kSameAgain,   // after a pause
  kAnotherKey,  // of the same provider, at once
  kNextInLine,
  kLargerModel,  // the next in line whose window is larger
};
// `tries`: of this deployment so far.
NextStep step_after(models::Failing failing, int upstream_status, unsigned tries);

// Between two tries of the same: grows, and differs from call to call.
Duration pause_before_retry(unsigned tries, std::uint64_t random);

// "claude-*": one star, at the end.
bool matches(std::string_view pattern, std::string_view model);

}  // namespace pons::gateway
