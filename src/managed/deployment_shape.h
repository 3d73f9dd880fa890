#pragma once

#include "pons/managed/fields.h"
#include "pons/schedule/deployment.h"
#include "pons/schedule/run.h"

namespace pons::managed {

// What a client says of a deployment, without the agent: that has to be looked up.
Result<schedule::DeploymentSpec> read_new_deployment(const Json& body);
Result<schedule::DeploymentChange> read_changed_deployment(const schedule::DeploymentSpec& before,
                                                           const Json& body);
// {"type": "agent", "id", "version"}, of an agent that was found.
std::string write_agent_reference(const Json& agent);
// The wish itself: "agent_…" or {"type": "agent", "id", "version"}; nothing else.
Result<void> check_agent_wish(const JsonPlace& place);

Result<Json> show_deployment(const schedule::Deployment& deployment);
Result<Json> show_run(const schedule::Run& run);

// What POST /v1/sessions takes, for a run.
Result<Json> write_session_wish(const schedule::DeploymentSpec& spec);

}  // namespace pons::managed
