#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/base/task.h"
#include "pons/http/exchange.h"
#include "pons/linux/loop.h"
#include "pons/mcp/message.h"
#include "pons/mcp/toolbox.h"

namespace pons::mcp {

struct ServerLimits {
  std::size_t sessions = 2'048;
  std::size_t sessions_per_project = 64;
  std::size_t calls_per_project = 64;  // under way at the same time
  std::size_t calls_per_session = 16;
  Duration idle_time = std::chrono::minutes(30);  // without a request, a call or an open stream
  Duration keep_alive_time = std::chrono::seconds(15);
  Duration progress_time = std::chrono::seconds(5);  // to those who want to hear of it
};

class SessionTable;
struct ServerSession;
struct RunningCall;

// The server's side of MCP over streamable HTTP: one path, POST for messages, GET for a stream, and
// DELETE for the end of a session. Sessions live in memory; one that is not known is a 404, and the
// client begins anew.
//
// A call goes on when its client leaves, as the protocol wants it; only a cancellation ends it.
class Server {
 public:
  // `toolbox` outlives this.
  Server(linux::Loop& loop, Toolbox& toolbox, ServerLimits limits = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Who asks has been found out. Another project's session is none.
  Task<> handle(http::Exchange& exchange, std::string project);

  // Ends sessions that nobody uses; never returns.
  Task<> keep_tidy();

  std::size_t session_count() const;

 private:
  using Session = std::shared_ptr<ServerSession>;
  Task<> take_message(http::Exchange& exchange, std::string project);
  Task<> open_stream(http::Exchange& exchange, const std::string& project);
  void end_session(http::Exchange& exchange, const std::string& project);
  void end(const Session& session);

  void initialize(http::Exchange& exchange, const std::string& project, const Request& request);
  Task<> answer(http::Exchange& exchange, Session session, Request request);
  void take_notification(ServerSession& session, const Notification& notification);
  Task<> call_tool(http::Exchange& exchange, Session session, Request request);
  Task<> run(Session session, std::shared_ptr<RunningCall> call, ToolCall order);
  Task<> wait_with_events(http::Exchange& exchange, std::shared_ptr<RunningCall> call);
  Task<> wait_with_json(http::Exchange& exchange, std::shared_ptr<RunningCall> call);
  std::string list_tools(const ServerSession& session, const Request& request) const;

  linux::Loop& loop_;
  Toolbox& toolbox_;
  ServerLimits limits_;
  std::unique_ptr<SessionTable> sessions_;
  linux::TaskGroup calls_;  // last: they use all of the above
};

}  // namespace pons::mcp
