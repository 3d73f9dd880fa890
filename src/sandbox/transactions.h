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

// Finds out what came of a switch whose answer was lost, to this process or to one before. The
// caller holds the view lock.
Task<Result<void>> settle_view(Fleet& fleet, Sandbox& sandbox);

// Undoes or keeps what the job did, by how it ended, and says so in `info`.
Task<> end_transaction(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, PendingTransaction pending,
                       JobInfo& info);

// The command that it was for was never begun, or nobody knows how it ended.
Task<> abandon_transaction(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string job);

// What becomes of processes that would be left in the old view: kRefuse leaves them there, and
// refuses while one has a file open for writing; kCopy lets them go on, in a sandbox that is frozen
// while its upper is copied.
enum class WhenBusy : std::uint8_t { kRefuse, kCopy };
// The frozen layers of the sandbox as it is now: its upper, or a copy of it, is the topmost.
Task<Result<Layers>> freeze_layers(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                   std::string keep_as, WhenBusy when_busy);
// Those of a checkpoint, which stay under this name whatever becomes of the checkpoint.
Task<Result<Layers>> hold_layers(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                 std::string checkpoint, std::string keep_as);

}  // namespace pons::sandbox
