#pragma once

#include "pons/http/client.h"
#include "pons/session/world.h"

namespace pons::brain {

// Asks egress, which has the secrets, whether a text holds one. Nothing leaves without its answer.
class EgressBoundary final : public session::Boundary {
 public:
  EgressBoundary(linux::Loop& loop, http::Connector connector);
  Task<Result<session::Redaction>> redact(Text text) override;

 private:
  http::Client client_;
};

}  // namespace pons::brain
