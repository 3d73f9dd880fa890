#pragma once

#include <functional>
#include <string>

#include "command.h"
#include "pons/base/task.h"
#include "pons/http/client.h"
#include "pons/linux/loop.h"

namespace pons::cli {

// One session of the running Pons, followed from here.
class Conversation {
 public:
  Conversation(linux::Loop& loop, const std::string& state_dir, std::string project,
               std::string session);

  // True ends it.
  using OnEvent = std::function<bool(std::string_view type, const Json& event)>;
  // From behind `after` until the callback has had enough. A stream that breaks off is taken up
  // again where it was.
  Task<Result<void>> follow(std::int64_t after, OnEvent on_event);
  // {"type": "user.message", …}
  Task<Result<void>> send(Json event);

 private:
  Task<Result<bool>> follow_once(std::int64_t& after, const OnEvent& on_event);

  linux::Loop& loop_;
  http::Client client_;
  std::string project_;
  std::string session_;
};

// What stands behind `/sessions` in a request of the operator.
std::string session_target(const std::string& project, const std::string& rest);

}  // namespace pons::cli
