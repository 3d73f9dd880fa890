#pragma once

#include <string>

#include "pons/base/result.h"
#include "pons/base/task.h"

namespace pons::mcp {

struct ToolCall {
  std::string session;
  std::string project;
  std::string id;         // of this call: no other of any session has it
  std::string name;       // of the tool
  std::string arguments;  // a JSON object
};
struct ToolResult {
  std::string text;
  bool is_error = false;  // the tool was there, and says why it could not do it
};

// What a server has to offer. Whoever has the tools implements it.
class Toolbox {
 public:
  virtual ~Toolbox() = default;

  // What a model is told of all of them together; may be empty.
  virtual std::string instructions() const { return {}; }
  // A JSON list of {"name", "description", "inputSchema"}: what that caller has; the same for as
  // long as a session of theirs lives.
  virtual std::string list(const std::string& project) const = 0;
  // kNotFound: there is no such tool. Ends by itself, at some time.
  virtual Task<Result<ToolResult>> call(ToolCall call) = 0;
  // Nobody waits for that call any more.
  virtual void cancel(const std::string& session, const std::string& call) = 0;
  // The session is over: what was made in it, and is not meant to stay, goes.
  virtual void end(const std::string& session) = 0;
};

}  // namespace pons::mcp
