#pragma once

#include "pons/session/state.h"
#include "pons/session/tools.h"

// What an agent gives another one of what it may use itself.

namespace pons::session {

struct BudgetShare {
  std::int64_t nano = 0;  // 0: no limit of its own, as whoever gives it
  std::int64_t tokens = 0;
};

// Of what is left when everyone who was asked before, in the same answer, has had their share: all
// of them together get no more than there is.
BudgetShare share_of(const State& state, const Call& call, const SpawnArguments& arguments);

// False: less than the smallest share is left of something that has a limit.
bool has_share(const State& state, const Call& call, const SpawnArguments& arguments);

}  // namespace pons::session
