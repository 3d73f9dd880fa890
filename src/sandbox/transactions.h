#pragma once

#include "fleet.h"

namespace pons::sandbox {

// Each takes the sandbox's view lock itself. `name` of a checkpoint may be one of the warden's own,
// which begin with a control character and are not shown.
Task<Result<void>> take_checkpoint(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                   std::string name);
Task<Result<void>> roll_back(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string name);
// Forgets the name. Layers that nobody tells apart any more become one, in the background.
Task<Result<void>> commit_checkpoint(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                     std::string name);

// Undoes or keeps what the job did, by how it ended, and says so in `info`.
Task<> end_transaction(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, PendingTransaction pending,
                       JobInfo& info);

// The frozen layers of the sandbox as it is now, its upper included, which becomes one of them.
Task<Result<Layers>> freeze_layers(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                   std::string keep_as);
// Those of a checkpoint, which stay under this name whatever becomes of the checkpoint.
Task<Result<Layers>> hold_layers(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                 std::string checkpoint, std::string keep_as);

}  // namespace pons::sandbox
