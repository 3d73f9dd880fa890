#include "budget_share.h"

#include <algorithm>

namespace pons::session {

namespace {

constexpr std::int64_t kSharePercent = 25;

std::int64_t percent_of(const SpawnArguments& arguments) {
  return arguments.budget_percent == 0 ? kSharePercent : arguments.budget_percent;
}

std::int64_t part_of(const State& state, const Call& call, std::int64_t percent,
                     std::int64_t budget, std::int64_t used) {
  std::int64_t left = std::max<std::int64_t>(budget - used, 0);
  for (const Call& other : state.calls) {
    if (other.block == call.block) break;
    if (other.name != kSpawnAgent || other.ended) continue;
    if (const auto arguments = read_spawn(other.input)) left -= left * percent_of(*arguments) / 100;
  }
  return left * percent / 100;
}

}  // namespace

BudgetShare share_of(const State& state, const Call& call, const SpawnArguments& arguments) {
  const std::int64_t percent = percent_of(arguments);
  // One that was begun has a share, whatever others have used since.
  const auto part = [&](std::int64_t budget, std::int64_t used) {
    return budget == 0 ? 0 : std::max<std::int64_t>(1, part_of(state, call, percent, budget, used));
  };
  return {.nano = part(state.agent.budget_nano, state.usage.cost_nano),
          .tokens = part(state.agent.budget_tokens, state.usage.all_tokens())};
}

bool has_share(const State& state, const Call& call, const SpawnArguments& arguments) {
  const std::int64_t percent = percent_of(arguments);
  const auto has = [&](std::int64_t budget, std::int64_t used) {
    return budget == 0 || part_of(state, call, percent, budget, used) >= 1;
  };
  return has(state.agent.budget_nano, state.usage.cost_nano) &&
         has(state.agent.budget_tokens, state.usage.all_tokens());
}

}  // namespace pons::session
