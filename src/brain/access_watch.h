#pragma once

#include <string>

#include "pons/base/json.h"
#include "pons/http/client.h"
#include "pons/sandbox/provider.h"
#include "pons/session/sessions.h"

namespace pons::brain {

// Hears from egress what programs in sandboxes wish, and lets the sessions know that the sandboxes
// are of. Egress keeps each word until it was passed on, so that none is lost with a process; a
// session takes each once.
class AccessWatch {
 public:
  // All outlive it. `node`: of this brain, whose sandboxes these are.
  AccessWatch(linux::Loop& loop, http::Client& egress, sandbox::Provider& sandboxes,
              session::Sessions& sessions, session::Boundary& boundary, std::string node)
      : loop_(loop),
        egress_(egress),
        sandboxes_(sandboxes),
        sessions_(sessions),
        boundary_(boundary),
        node_(std::move(node)) {}

  // Runs as long as the process.
  Task<> keep_going();
  // What there is now; waits a while for it. Whether all of it was passed on.
  Task<Result<bool>> pass_on();

 private:
  Task<Result<void>> pass_on(Json request);
  Task<Result<std::string>> tell_wish(const Json& request);
  Task<Result<void>> tell_end(const Json& request);
  Task<Result<std::string>> find_session(std::string sandbox);
  Task<Result<void>> say_told(const Json& request, std::string session);
  Task<Result<void>> post(std::string target, Json body);

  linux::Loop& loop_;
  http::Client& egress_;
  sandbox::Provider& sandboxes_;
  session::Sessions& sessions_;
  session::Boundary& boundary_;
  std::string node_;
};

}  // namespace pons::brain
