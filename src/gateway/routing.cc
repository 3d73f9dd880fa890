#include "routing.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pons/base/text.h"

namespace pons::gateway {

namespace {

// A number in (0, 1) that is the same each time for a conversation and a deployment.
double lot(std::string_view affinity, const std::string& name) {
  std::uint64_t hash = 14'695'981'039'346'656'037ULL;
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211ULL;
  };
  add(affinity);
  add("\n");
  add(name);
  hash ^= hash >> 33U;
  hash *= 0xff51afd7ed558ccdULL;
  hash ^= hash >> 33U;
  return (static_cast<double>(hash >> 11U) + 0.5) / 9007199254740992.0;
}

std::string name_of(const Deployment& deployment) {
  return deployment.provider + "/" + deployment.model;
}

}  // namespace

void Health::succeed() {
  failures_ = 0;
  rest_ = kFirstRest;
  probing_ = false;
}

void Health::fail(TimePoint now) {
  probing_ = false;
  if (open_until_ > now) return;  // of a call that began before
  if (++failures_ < kFailuresMax) return;
  open_until_ = now + rest_;
  rest_ = std::min(rest_ * 2, kLongestRest);
}

Routing::Routing(ModelSettings settings) : settings_(std::move(settings)) {
  for (const auto& [name, route] : settings_.routes)
    for (const Deployment& deployment : route.deployments)
      lines_[name].push_back(std::make_shared<Candidate>(Candidate{.deployment = deployment}));
}

std::shared_ptr<Candidate> Routing::candidate_of(std::string_view provider,
                                                 std::string_view model) {
  constexpr std::size_t kOthersMax = 500;
  Deployment deployment{.provider = std::string(provider), .model = std::string(model)};
  const std::string name = name_of(deployment);
  if (const auto found = others_.find(name); found != others_.end()) return found->second;
  auto made = std::make_shared<Candidate>(Candidate{.deployment = std::move(deployment)});
  if (others_.size() >= kOthersMax) others_.clear();  // what is in use stays with its users
  others_[name] = made;
  return made;
}

Result<Routing::Line> Routing::candidates(std::string_view model, std::string_view affinity) {
  if (const auto route = settings_.routes.find(model); route != settings_.routes.end()) {
    Line line = lines_.find(model)->second;
    if (route->second.order == ModelRoute::Order::kByWeight)
      // The highest score wins (rendezvous hashing): when one deployment fails or goes, only its
      // own conversations move.
      std::ranges::sort(line, std::greater{}, [&](const std::shared_ptr<Candidate>& candidate) {
        return -static_cast<double>(candidate->deployment.weight) /
               std::log(lot(affinity, name_of(candidate->deployment)));
      });
    return line;
  }
  if (const std::size_t slash = model.find('/'); slash != std::string_view::npos) {
    const auto provider = settings_.providers.find(model.substr(0, slash));
    if (provider != settings_.providers.end() && slash + 1 < model.size())
      return Line{candidate_of(provider->first, model.substr(slash + 1))};
  }
  Line line;
  for (const auto& [name, provider] : settings_.providers)
    if (std::ranges::any_of(provider.serves,
                            [&](const std::string& pattern) { return matches(pattern, model); }))
      line.push_back(candidate_of(name, model));
  if (!line.empty()) return line;
  const std::vector<std::string> names = model_names();
  return make_error(ErrorCode::kNotFound, "find model",
                    fmt::format("there is no model \"{}\" here; there are: {}",
                                model.substr(0, 128), fmt::join(names, ", ")));
}

bool Routing::spreads(std::string_view model) const {
  const auto route = settings_.routes.find(model);
  return route != settings_.routes.end() && route->second.order == ModelRoute::Order::kByWeight;
}

void Routing::remember(std::string_view project, std::string_view response_id,
                       std::shared_ptr<Candidate> candidate) {
  constexpr std::size_t kRememberedMax = 10'000;
  constexpr std::size_t kIdBytesMax = 256;
  if (response_id.empty() || response_id.size() > kIdBytesMax) return;
  std::string key = fmt::format("{}\n{}", project, response_id);
  if (!makers_.try_emplace(key, std::move(candidate)).second) return;
  remembered_.push_back(std::move(key));
  if (remembered_.size() <= kRememberedMax) return;
  makers_.erase(remembered_.front());
  remembered_.pop_front();
}

std::shared_ptr<Candidate> Routing::maker_of(std::string_view project,
                                             std::string_view response_id) const {
  const auto found = makers_.find(fmt::format("{}\n{}", project, response_id));
  return found == makers_.end() ? nullptr : found->second;
}

std::vector<std::string> Routing::model_names() const {
  std::vector<std::string> names;
  for (const auto& [name, route] : settings_.routes) names.push_back(name);
  for (const auto& [name, provider] : settings_.providers)
    for (const std::string& pattern : provider.serves) names.push_back(pattern);
  return names;
}

NextStep step_after(models::Failing failing, int upstream_status, unsigned tries) {
  using models::Failing;
  switch (failing) {
    case Failing::kContextLength:
      return NextStep::kLargerModel;
    case Failing::kRateLimit:
    case Failing::kAuthentication:
      return NextStep::kAnotherKey;
    case Failing::kOverloaded:
    case Failing::kUpstream:
      // Two tries of one deployment: a fault that lasts is for the next in line.
      return tries < 2 && upstream_status != 501 ? NextStep::kSameAgain : NextStep::kNextInLine;
    case Failing::kTimeout:
    case Failing::kNotFound:
    case Failing::kPermission:
      return NextStep::kNextInLine;
    case Failing::kInvalidRequest:
    case Failing::kTooLarge:
    case Failing::kBudget:
      break;
  }
  return NextStep::kTellClient;
}

Duration pause_before_retry(unsigned tries, std::uint64_t random) {
  constexpr std::int64_t kFirstMs = 250;
  const std::int64_t longest = kFirstMs << std::min(tries, 5U);
  return std::chrono::milliseconds(
      longest / 2 + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(longest / 2)));
}

void Routing::for_each(
    const std::function<void(const std::string&, const Candidate&)>& visit) const {
  for (const auto& [name, line] : lines_)
    for (const auto& candidate : line) visit(name, *candidate);
}

std::string provider_of(const ModelSettings& settings, std::string_view asked,
                        std::string_view answered) {
  if (const auto route = settings.routes.find(asked); route != settings.routes.end()) {
    const auto& all = route->second.deployments;
    const auto found = std::ranges::find(all, answered, &Deployment::model);
    return found == all.end() ? all.front().provider : found->provider;
  }
  if (const auto provider = settings.providers.find(asked.substr(0, asked.find('/')));
      provider != settings.providers.end())
    return provider->first;
  for (const auto& [name, provider] : settings.providers)
    for (const std::string& pattern : provider.serves)
      if (matches(pattern, asked)) return name;
  return {};
}

bool matches(std::string_view pattern, std::string_view model) {
  if (!pattern.ends_with('*')) return pattern == model;
  return model.starts_with(pattern.substr(0, pattern.size() - 1));
}

}  // namespace pons::gateway
