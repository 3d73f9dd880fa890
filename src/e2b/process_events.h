#pragma once

#include <string>

#include "pons/sandbox/provider.h"
#include "process_name.h"

// What a stream of process events says, as JSON text.

namespace pons::e2b {

std::string start_event(std::uint32_t pid);
std::string data_event(const sandbox::Output& output, ProcessIo io);
std::string end_event(const sandbox::JobInfo& end);
inline constexpr std::string_view kKeepAliveEvent = R"({"event":{"keepalive":{}}})";

}  // namespace pons::e2b
