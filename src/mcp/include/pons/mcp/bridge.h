#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/client.h"
#include "pons/linux/loop.h"
#include "pons/mcp/message.h"

namespace pons::mcp {

// Carries messages between a program that writes and reads them as lines and a server that takes
// them over HTTP. A server that has forgotten its session (it was started again) is greeted anew,
// unseen by the program; what was in the session is gone, and its tools say so.
class Bridge {
 public:
  using Say = std::function<void(std::string line)>;  // to the program; without a line feed

  // `client` speaks to the server's origin and outlives this; `fields` say who calls.
  Bridge(linux::Loop& loop, http::Client& client, std::string target, http::OwnedFields fields,
         Say say);

  // One line of the program's. Returns when the next one may be taken: at once, but for what comes
  // first, and while too many are under way.
  Task<> take(std::string line);

  // No more lines come. Waits for answers under way, until `deadline` at most, and ends the
  // session.
  Task<> finish(TimePoint deadline);

 private:
  struct Outcome;  // of one request to the server
  http::ClientRequest request_of(std::string method, std::string body) const;
  Task<> carry(Message message);
  Task<Outcome> try_to_carry(const Message& message);
  Task<Result<void>> pass_events(http::ClientResponse& response);
  void learn(const http::ClientResponse& response, std::string_view body);
  Task<bool> greet_again(std::string forgotten);
  Task<> listen(std::string session);
  void fail(const Message& message, std::string why);

  linux::Loop& loop_;
  http::Client& client_;
  std::string target_;
  http::OwnedFields fields_;
  Say say_;
  std::optional<Request> greeting_;  // the program's initialize
  std::string session_;
  std::string version_;
  bool is_greeting_ = false;
  linux::Event greeted_;
  linux::Event room_;
  std::unique_ptr<linux::TaskGroup> listener_;
  linux::TaskGroup carried_;  // last: its tasks use all of the above
};

}  // namespace pons::mcp
