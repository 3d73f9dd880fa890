#pragma once

#include "command.h"

namespace pons::cli {

// `pons doctor --leaks`: what the kernel and the state directory hold for sandboxes that the Pons
// on this state directory does not know. The exit status: 0 when there is none.
int run_leaks(const Common& common);

}  // namespace pons::cli
