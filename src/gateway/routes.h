#pragma once

#include <vector>

#include "model_call.h"
#include "pons/http/router.h"

namespace pons::gateway {

// The endpoints for models, for every role that may call them and for clients on trusted networks.
std::vector<http::Route> model_routes(Models& models);

// Keys, usage and models for the operator.
std::vector<http::Route> operator_routes(Models& models);

// For the brain; "agent" where one has taken it, and otherwise nothing.
// POST /sandbox-time [{"id", "project", "agent", "seconds"}] of sandboxes that have ended, each
// charged once, however often it is told.
// POST /sandbox-time/running [{"project", "agent", "seconds"}]: how long those have run that nobody
// was charged for yet, all of them; the answer names the projects whose sandboxes have limits:
// {"limited": […]}.
// POST /sandbox-time/admissions {"project", "agent"}: before a sandbox of one of those is made; 429
// says which limit it is.
std::vector<http::Route> sandbox_routes(Models& models);

// For the brain. POST /session-keys {"project", "agent", "session", "sandbox", "models",
// "cost_nano_usd", "tokens"} makes a key that is good in that sandbox, for these models and so much
// at the most: {"id", "key"}. GET /session-keys/{id}: what was used with it. DELETE revokes it.
std::vector<http::Route> session_key_routes(Models& models);

// For the brain. POST /questions/{id}/end: what the calls came to that named the question in
// x-pons-question; from then on none of it is begun. 409 while one is under way.
std::vector<http::Route> question_routes(Models& models);

}  // namespace pons::gateway
