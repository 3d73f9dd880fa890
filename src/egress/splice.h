#pragma once

#include <functional>
#include <memory>

#include "pons/base/task.h"
#include "pons/http/transport.h"
#include "pons/linux/loop.h"

namespace pons::egress {

// Asked before so many bytes leave.
using MayLeave = std::function<bool(std::size_t)>;

// Carries bytes both ways, as they are, until both sides have ended or one has failed. Either side
// may end its own direction first.
Task<> splice(linux::Loop& loop, http::Transport& inside, http::Transport& outside,
              MayLeave may_leave, Duration idle_max);

}  // namespace pons::egress
