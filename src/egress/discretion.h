#pragma once

#include <string>
#include <string_view>

#include "attached_sandbox.h"

namespace pons::egress {

// The text as it may be written down: a word in its place when it holds a secret or a stub.
std::string for_the_record(const Boundary& boundary, AttachedSandbox& sandbox,
                           std::string_view text);

// True when looking the name up would tell a secret to the world. A name has no case, so none
// counts here.
bool tells_secret(const Boundary& boundary, const AttachedSandbox& sandbox,
                  const names::HostName& name);
// The same for the name of a field: HTTP/2 has only small letters there.
bool tells_secret(const Boundary& boundary, const AttachedSandbox& sandbox, std::string_view name);

}  // namespace pons::egress
