#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/task.h"
#include "pons/mcp/remote_tool.h"
#include "pons/store/store.h"

namespace pons::brain {

// A tool that waits for a person.
struct PendingTool {
  std::string name;
  std::string digest;
  std::string description;
  std::string input_schema;  // empty: too long to be kept here
  bool is_changed = false;   // another one of this name was accepted
};

struct KnownServer {
  std::string url;
  mcp::ToolPins accepted;
  std::vector<PendingTool> pending;
  std::int64_t revision = 0;
  std::int64_t updated_ms = 0;
};

// Which tools of which servers a project has accepted. Whoever names a server accepts what it
// offers when it is met first; what it offers otherwise later waits for a person.
class ServerPins {
 public:
  ServerPins(store::Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  // kNotFound: nobody of the project has met it.
  Task<Result<KnownServer>> find(std::string project, std::string url);
  Task<Result<std::vector<KnownServer>>> list(std::string project);
  // A server has said what it offers. What is accepted of it.
  Task<Result<mcp::ToolPins>> meet(std::string project, std::string url, mcp::ToolList offered);
  // Pending tools, by name and by what they were when the person looked; kConflict when one of them
  // is none, or another by now.
  struct Choice {
    std::string name;
    std::string digest;
  };
  Task<Result<KnownServer>> accept(std::string project, std::string url,
                                   std::vector<Choice> choices);
  // The next meeting is the first one.
  Task<Result<void>> forget(std::string project, std::string url);

 private:
  Task<Result<void>> replace(std::string project, const KnownServer& after);
  std::int64_t now_ms() const;

  store::Store& store_;
  const Clock& clock_;
};

}  // namespace pons::brain
