#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/session/state.h"

// Work toward an outcome: the agent works, somebody who has only the rubric and what was done
// judges it, and the agent hears what is missing, until nothing is or it has tried often enough.

namespace pons::session {

// What the agent reads of it, as a JSON list of blocks.
std::string write_outcome(const OutcomeDefined& outcome);
// What it reads when the work is not accepted; after the last time it is not judged again.
std::string write_revision(std::string_view explanation, bool is_last);

// The request to the one who judges: a conversation of its own, without tools. Only for a state
// with an outcome.
std::string write_grade_request(const State& state);

struct Grade {
  Verdict verdict = Verdict::kFailed;
  std::string explanation;
};
// Reads what the judge says: the last JSON object in it. Not that of the work, which it may quote.
Result<Grade> read_grade(std::string_view answer);

}  // namespace pons::session
