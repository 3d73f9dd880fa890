#pragma once

#include <memory>
#include <string>

#include "pons/http/transport.h"
#include "pons/linux/loop.h"

namespace pons::store {

// A connection to a server that lets in whoever reaches its socket.
Task<Result<std::unique_ptr<http::Transport>>> open_directly(linux::Loop& loop, std::string path,
                                                             std::string user, std::string database,
                                                             TimePoint deadline);

// Several statements on it, whose answers nobody wants.
Task<Result<void>> run_directly(http::Transport& stream, std::string sql);

}  // namespace pons::store
