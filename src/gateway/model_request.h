#pragma once

#include <expected>
#include <optional>
#include <string>

#include "pons/base/task.h"
#include "pons/http/exchange.h"
#include "pons/models/facts.h"
#include "pons/models/protocol.h"

namespace pons::gateway {

// A request on its way, as the client sent it and, once somebody needs it so, as it is read.
struct ModelRequest {
  models::Protocol protocol = models::Protocol::kMessages;
  std::string body;
  models::RequestFacts facts;
  http::OwnedFields fields = {};  // that go on to a provider of the same protocol
  int patience = 1;               // so many times what a provider may take until it answers
  std::optional<models::Request> read = std::nullopt;

  // Reads it on the first call.
  Result<const models::Request*> whole();
};

Task<std::expected<ModelRequest, models::Failure>> read_model_request(http::Exchange& exchange,
                                                                      models::Protocol protocol);

std::string new_request_id();

}  // namespace pons::gateway
