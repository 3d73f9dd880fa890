#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"
#include "pons/mcp/message.h"
#include "pons/mcp/remote_tool.h"
#include "pons/mcp/sender.h"

namespace pons::mcp {

struct ClientLimits {
  Duration question_time = std::chrono::seconds(30);  // initialize, one page of tools
  Duration call_time = std::chrono::minutes(5);       // a tool, from the question to its result
  std::size_t answer_bytes = 4 << 20;  // of one answer, with all that comes before it
  std::size_t pages = 32;
};

// What a tool said. Parts that are no text are told of and left out.
struct RemoteResult {
  std::string text;
  bool is_error = false;
};

// The client's side of MCP over streamable HTTP, for servers that nobody has reason to trust: each
// wait has a deadline and each answer a size, and of what a server says no more is believed than it
// must be. One question at a time.
class Client {
 public:
  // `sender` outlives this.
  Client(linux::Loop& loop, Sender& sender, ClientLimits limits = {})
      : loop_(loop), sender_(sender), limits_(limits) {}

  // All pages of them. Begins a session where there is none.
  Task<Result<ToolList>> list_tools();

  // kDenied: the tool is not as it was accepted, and a person has to look at it; or the server
  // wants other credentials. The list is read again first when the server said that it changed, and
  // for the first call of a session. `arguments` is a JSON object. kIo, kTimeout, kUnavailable: it
  // was asked, and nobody knows what it did; of any other error, it did nothing.
  Task<Result<RemoteResult>> call(std::string tool, std::string arguments, const ToolPins& pins);

  // Of the server's last answer; 0: there was none, or it was not let out.
  int last_status() const { return last_status_; }

  // Tells the server, if it is still there, that nobody comes any more.
  Task<> close();

 private:
  Task<Result<void>> begin();
  // The result of a request, as JSON. A session that the server has forgotten is begun again, once.
  Task<Result<std::string>> ask(std::string method, std::string params);
  Task<Result<void>> check(const std::string& tool, const ToolPins& pins);
  Task<Result<std::string>> ask_once(const Request& request, TimePoint deadline);
  Task<Result<Reply>> read_reply(ServerAnswer& answer, const std::string& id, TimePoint deadline);
  Task<Result<void>> tell(Notification notification);
  ServerRequest request_of(std::string method, std::string body) const;
  void hear(const Message& message);

  linux::Loop& loop_;
  Sender& sender_;
  ClientLimits limits_;
  bool is_open_ = false;
  std::string session_;
  std::string version_;
  std::int64_t last_id_ = 0;
  int last_status_ = 0;
  std::optional<ToolList> list_;  // of this session; none when it may have changed
};

}  // namespace pons::mcp
