#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "pons/http/client.h"
#include "recorded_exchange.h"

namespace pons::front {

// A request that another role answers.
struct Passage {
  http::Client& role;
  std::string target;
  http::OwnedFields caller;                         // who asks, as it was found out here
  std::function<bool(std::string_view)> is_wanted;  // fields of the client's that go along
  std::function<http::Response()> if_silent;        // the answer when the role gives none
  std::function<Task<>()> until =
      {};  // ends the passage when it does, wherever it is; may be empty
};

// Passes request and answer on, piece by piece. A client that leaves ends it, and the role sees it
// at once.
Task<> pass_on(linux::Loop& loop, RecordedExchange& exchange, Passage passage);

}  // namespace pons::front
