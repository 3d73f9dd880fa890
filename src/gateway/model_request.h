#pragma once

#include <expected>
#include <optional>
#include <string>

#include "body_share.h"
#include "pons/base/task.h"
#include "pons/http/exchange.h"
#include "pons/models/facts.h"
#include "pons/models/protocol.h"

namespace pons::gateway {

// A request on its way, as the client sent it and, once somebody needs it so, as it is read.
struct ModelRequest {
  models::Protocol protocol = models::Protocol::kMessages;
  std::string body;
  std::size_t body_bytes = 0;  // that there were, also after forget_body()
  BodyShare share = {};
  models::RequestFacts facts = {};
  http::OwnedFields fields = {};  // that go on to a provider of the same protocol
  int patience = 1;               // so many times what a provider may take until it answers
  std::optional<models::Request> read = std::nullopt;

  // Reads it on the first call.
  Result<const models::Request*> whole();
  // Once an answer has begun nobody else is asked: streams last long, and prompts are large.
  void forget_body();
};

Task<std::expected<ModelRequest, models::Failure>> read_model_request(http::Exchange& exchange,
                                                                      models::Protocol protocol,
                                                                      BodyMemory& memory);

std::string new_request_id();

}  // namespace pons::gateway
