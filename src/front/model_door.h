#pragma once

#include <optional>
#include <string>

#include "admission.h"
#include "passage.h"
#include "pons/http/client.h"
#include "pons/http/exchange.h"
#include "pons/models/message.h"
#include "recorded_exchange.h"
#include "role_line.h"

namespace pons::front {

// The endpoints for models: who calls is found out here, all else is the gateway's. Requests and
// answers pass piece by piece.
class ModelDoor {
 public:
  ModelDoor(linux::Loop& loop, Admission& admission, RoleLine& gateway);

  static bool is_for_model(const http::RequestHead& request);
  Task<> handle(RecordedExchange& exchange);

 private:
  // What tells the gateway who calls; an error when nobody does who may.
  Result<http::OwnedFields> identify(RecordedExchange& exchange);

  linux::Loop& loop_;
  Admission& admission_;
  http::Client gateway_;
};

}  // namespace pons::front
