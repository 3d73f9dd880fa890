#pragma once

#include <string>
#include <vector>

#include "attachments.h"
#include "boundary.h"

namespace pons::egress {

// A text that is about to leave for people or channels, without what must not.
struct Redacted {
  std::string text;
  std::vector<std::string> names;  // of the credentials whose values or stubs stood in it
  std::size_t held = 0;  // bytes at its end that may belong to one whose rest is still to come
};

// Values of the vaults, secrets of the sandboxes' projects, and their stubs, become as many letters
// x; punctuation stays. A text in which that cannot be done is withheld as a whole. `more`: the
// text goes on.
Result<Redacted> redact(Boundary& boundary, const std::vector<AttachedSandbox*>& sandboxes,
                        std::string_view text, bool more);

}  // namespace pons::egress
