#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/linux/loop.h"
#include "pons/mcp/server.h"

namespace pons::mcp {

// A call of a tool under way. Shared by the session, which may cancel it, the task that runs it,
// and the request that waits for it: each of them may be gone first.
struct RunningCall {
  RunningCall(linux::Loop& loop, std::string asked_as, std::string known_as)
      : request(std::move(asked_as)), id(std::move(known_as)), done(loop), begun(loop.now()) {}

  std::string request;         // the client's id of it
  std::string id;              // the toolbox's
  std::string progress_token;  // JSON; empty: nobody wants to hear of progress
  linux::Event done;
  std::string reply;  // a message, once it is done
  bool is_cancelled = false;
  TimePoint begun;
};

// Shared by the table and the requests that are under way in it.
struct ServerSession {
  ServerSession(linux::Loop& loop, std::string name, std::string owner, std::string spoken)
      : id(std::move(name)),
        project(std::move(owner)),
        version(std::move(spoken)),
        used(loop.now()) {}

  std::string id;
  std::string project;
  std::string version;
  std::map<std::string, std::shared_ptr<RunningCall>> calls;  // by the client's id
  std::uint64_t calls_made = 0;
  std::shared_ptr<linux::Event> stream;  // set: the open stream is to end
  TimePoint used;

  bool is_in_use() const { return !calls.empty() || stream != nullptr; }
};

class SessionTable {
 public:
  SessionTable(linux::Loop& loop, const ServerLimits& limits) : loop_(loop), limits_(limits) {}

  // kLimit: there are too many. `ousted` is one that nobody would miss, which is out already.
  Result<std::shared_ptr<ServerSession>> create(const std::string& project, std::string version,
                                                std::shared_ptr<ServerSession>& ousted);
  // Null: not known to that project.
  std::shared_ptr<ServerSession> find(std::string_view id, std::string_view project) const;
  void remove(const std::string& id) { sessions_.erase(id); }

  std::vector<std::shared_ptr<ServerSession>> find_idle() const;
  std::size_t calls_of(std::string_view project) const;
  std::size_t size() const { return sessions_.size(); }

 private:
  std::shared_ptr<ServerSession> find_unmissed(std::string_view project) const;

  linux::Loop& loop_;
  const ServerLimits& limits_;
  std::map<std::string, std::shared_ptr<ServerSession>, std::less<>> sessions_;
};

}  // namespace pons::mcp
