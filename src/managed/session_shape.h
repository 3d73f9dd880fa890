#pragma once

#include "pons/managed/fields.h"
#include "pons/session/log.h"
#include "session_orders.h"

namespace pons::managed {

// The agent as a session works with it: what the model is told, what it may do, where.
session::AgentSpec spec_of(const Json& agent, const Json& environment);

// {"type": "limit", "max_list_cost"}: in billionths of a dollar.
Result<std::int64_t> read_budget(const JsonPlace& place);

// "idle", "running", "rescheduling", "terminated"
const char* status_of(const session::Summary& summary);
// Of the log: what a status of the API covers.
Result<void> read_status(std::string_view word, OrderFilter& filter);

Json show_usage(const session::Usage& used);
// Without what became of its outcomes: outcome_shape.h adds that.
Result<Json> show_session(const SessionOrder& order, const session::Summary& summary);

}  // namespace pons::managed
