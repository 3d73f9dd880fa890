#pragma once

#include <memory>
#include <optional>
#include <string>

#include "client_side.h"
#include "model_request.h"
#include "pons/base/task.h"
#include "pons/models/protocol.h"
#include "provider.h"

namespace pons::gateway {

enum class Ending : std::uint8_t {
  kAnswered,
  kFailed,  // the client has heard nothing of an answer: somebody else may be asked
  kUnfit,   // the provider's protocol has no words for the request: it was not asked
  kBroken,  // an answer had begun; the client was told
  kClientGone,
};

// What became of one try.
struct Outcome {
  Ending ending = Ending::kFailed;
  models::Failure failure = {};  // of kFailed, kUnfit and kBroken
  int upstream_status = 0;       // 0: none came
  models::Usage usage = {};      // as the provider says, or as far as it did
  bool is_usage_known = false;
  bool is_usage_final = false;   // it is of the whole answer
  std::size_t output_bytes = 0;  // text, thinking and arguments that came
  std::string response_id = {};
};

// Where a provider takes requests of a protocol: "/v1/messages".
std::string endpoint_of(const ProviderUrl& url, models::Protocol protocol);

// Tells how a stream goes on, while it does.
using ProgressSink = std::function<void(const models::Usage&, std::size_t output_bytes)>;

// Asks one provider with one of its keys and passes the answer on.
Task<Outcome> relay_call(linux::Loop& loop, Provider& provider, std::size_t key,
                         std::string_view model, ModelRequest& request, ClientSide& client,
                         const ProgressSink& progress);

}  // namespace pons::gateway
