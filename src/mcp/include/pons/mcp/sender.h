#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/exchange.h"

namespace pons::mcp {

struct ServerRequest {
  std::string method;
  http::OwnedFields fields;  // none that says who asks: whoever sends it puts that in
  std::string body;
};

// An answer whose body is still to be read; dropping it gives the rest up.
class ServerAnswer {
 public:
  virtual ~ServerAnswer() = default;
  virtual int status() const = 0;
  virtual std::optional<std::string_view> find(std::string_view field) const = 0;
  // The next piece, empty at the end; valid until the next call.
  virtual Task<Result<std::string_view>> read(TimePoint deadline) = 0;
};

// The way to one server. Who asks has no network and no credentials: both are the sender's.
class Sender {
 public:
  virtual ~Sender() = default;
  virtual Task<Result<std::unique_ptr<ServerAnswer>>> send(ServerRequest request,
                                                           TimePoint deadline) = 0;
};

}  // namespace pons::mcp
