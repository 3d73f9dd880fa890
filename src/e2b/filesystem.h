#pragma once

#include "call.h"
#include "pons/base/json.h"
#include "rpc_stream.h"

// filesystem.Filesystem of E2B's data plane.

namespace pons::e2b {

Task<Result<Json>> stat_entry(Call& call, const Json& request);
Task<Result<Json>> list_entries(Call& call, const Json& request);
Task<Result<Json>> make_directory(Call& call, const Json& request);
Task<Result<Json>> move_entry(Call& call, const Json& request);
Task<Result<Json>> remove_entry(Call& call, const Json& request);

// Events of a directory, as they come.
Task<Result<void>> watch_directory(Call& call, const Json& request, RpcStream& events);
// Events of a directory that are kept until they are asked for.
Task<Result<Json>> create_watcher(Call& call, const Json& request);
Task<Result<Json>> take_watcher_events(Call& call, const Json& request);
Task<Result<Json>> remove_watcher(Call& call, const Json& request);

// Makes it, with its parents, as the caller's own. kConflict when it is there.
Task<Result<sandbox::FileInfo>> make_own_directory(Call& call, std::string path);

}  // namespace pons::e2b
