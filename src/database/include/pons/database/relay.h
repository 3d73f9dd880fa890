#pragma once

#include "pons/http/transport.h"
#include "pons/linux/loop.h"

namespace pons::database {

// Carries bytes both ways, as they are, until one side has ended or failed.
Task<> relay(linux::Loop& loop, http::Transport& inside, http::Transport& outside);

}  // namespace pons::database
