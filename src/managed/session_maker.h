#pragma once

#include "pons/managed/fields.h"
#include "routes.h"

namespace pons::managed {

// An agent at a version, as an agent of a session shows it: {"id", "type", "version", "name", …}.
// `place` is "agent_…", {"type": "agent", "id", "version"} or one with overrides.
Task<Reply<Json>> find_agent(Objects& objects, const std::string& project, const Json& wish);

struct SessionWish {
  std::string id;  // empty: one is made. One that is there already is the answer
  std::string project;
  std::string deployment;
};
// What POST /v1/sessions does, for whoever wants a session.
Task<Reply<Json>> make_session(Objects& objects, session::Sessions& sessions, SessionWish wish,
                               const Json& body);

}  // namespace pons::managed
