#pragma once

#include <string>

#include "attached_sandbox.h"

struct msghdr;  // NOLINT(readability-identifier-naming): the kernel's

namespace pons::egress {

// Answers questions for names that arrive at the sandbox's UDP socket, until cancelled.
Task<> answer_names(Boundary& boundary, AttachedSandbox& sandbox);

// To who asked, and from the address that was asked: every address is one of the sandbox's own, and
// the kernel would choose another. `question` is as it was received.
void send_back(int socket, const msghdr& question, const std::string& reply);

}  // namespace pons::egress
