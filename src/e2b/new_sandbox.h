#pragma once

#include <map>
#include <string>

#include "network_options.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

// The body of "create", read and checked.
struct NewSandbox {
  std::string template_id;
  std::map<std::string, std::string> environment;
  std::string metadata = "{}";  // JSON text
  sandbox::Milliseconds timeout{0};
  bool auto_pause = false;
  bool auto_resume = false;
  bool keeps_memory = true;  // over a pause at its end
  NetworkOptions network;
};

// `timeout_default` of a body that names none.
Result<NewSandbox> read_new_sandbox(const Json& body, sandbox::Milliseconds timeout_default,
                                    std::string_view project);

// Whether the body says {"memory": false}: without processes, as after a new start.
Result<bool> wants_cold(const Json& body);

// Seconds of a body, as milliseconds; nothing when it is not there.
Result<std::optional<sandbox::Milliseconds>> read_seconds(const Json& body, const char* name);

}  // namespace pons::e2b
