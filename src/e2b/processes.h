#pragma once

#include "call.h"
#include "pons/base/json.h"
#include "rpc_stream.h"

// process.Process of E2B's data plane: processes are jobs of the sandbox.

namespace pons::e2b {

// Calls with a stream of events. An error is for the stream's end.
Task<Result<void>> start_process(Call& call, const Json& request, RpcStream& events);
Task<Result<void>> connect_process(Call& call, const Json& request, RpcStream& events);

// Calls with one answer.
Task<Result<Json>> list_processes(Call& call, const Json& request);
Task<Result<Json>> send_input(Call& call, const Json& request);
Task<Result<Json>> close_stdin(Call& call, const Json& request);
Task<Result<Json>> send_signal(Call& call, const Json& request);
Task<Result<Json>> update_process(Call& call, const Json& request);

}  // namespace pons::e2b
