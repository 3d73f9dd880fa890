#pragma once

#include <string_view>

namespace pons::linux {

// Tells the service manager, by the sd_notify protocol: "READY=1", "STATUS=...", "STOPPING=1";
// several lines make one message. Does nothing when NOTIFY_SOCKET is not set, and a service manager
// that does not listen is no reason to fail.
void notify_supervisor(std::string_view state);

}  // namespace pons::linux
