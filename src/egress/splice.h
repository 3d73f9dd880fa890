#pragma once

#include <functional>

#include "pons/base/task.h"
#include "pons/http/transport.h"
#include "pons/linux/loop.h"

namespace pons::egress {

// Carries bytes both ways, as they are, until both sides have ended or one has failed. Either side
// may end its own direction first. `may_send` is asked about each piece before it leaves; its no
// ends everything.
Task<> splice(linux::Loop& loop, http::Transport& inside, http::Transport& outside,
              std::function<bool(std::size_t)> may_send, Duration idle_max);

}  // namespace pons::egress
