#pragma once

#include "pons/memory/memory_stores.h"
#include "pons/session/world.h"
#include "pons/telemetry/page.h"

namespace pons::brain {

// The memory of sessions, out of the memory stores of their project.
class SessionNotes final : public session::Notes {
 public:
  // `stores` outlives this.
  explicit SessionNotes(memory::MemoryStores& stores) : stores_(stores) {}

  Task<Result<std::string>> recall(session::RecallOrder order) override;
  Task<Result<session::NoteReport>> use(session::NoteOrder order) override;

  void write_metrics(telemetry::Page& page) const;

 private:
  Task<Result<session::NoteReport>> run(session::NoteOrder order);

  memory::MemoryStores& stores_;
  telemetry::Series<telemetry::Counter> calls_{32};  // by tool and outcome
  telemetry::Counter recalls_;
};

}  // namespace pons::brain
