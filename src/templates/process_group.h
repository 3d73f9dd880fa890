#pragma once

#include "pons/linux/child.h"

namespace pons::templates {

// Makes its own process the leader of a group and becomes the program that follows.
inline constexpr const char* kSessionProgram = "/usr/bin/setsid";

// The whole group of a child that was started through kSessionProgram. Asked, they clean up behind
// themselves; what does not end is killed, and so is what the child leaves behind.
void stop_group(linux::ChildProcess& child);

}  // namespace pons::templates
