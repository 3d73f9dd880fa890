#pragma once

#include <map>
#include <memory>
#include <string>

#include "egress_sender.h"
#include "pons/linux/loop.h"
#include "pons/mcp/client.h"
#include "pons/session/world.h"
#include "pons/telemetry/page.h"
#include "server_pins.h"
#include "server_tools.h"

namespace pons::brain {

// How often servers of others were asked, and what came of it.
struct ServerCounts {
  std::uint64_t lists = 0;
  std::uint64_t list_failures = 0;
  std::uint64_t done_calls = 0;
  std::uint64_t refused_calls = 0;  // nothing was done
  std::uint64_t lost_calls = 0;     // nobody knows
};

// MCP servers of others as tools of sessions, by egress. A session's conversation with a server
// stays open for some time: what a server remembers of one call it knows in the next.
class SessionServers final : public session::Servers {
 public:
  // What it is given outlives it.
  SessionServers(linux::Loop& loop, http::Client& egress, ServerPins& pins,
                 mcp::ClientLimits limits = usual_limits())
      : loop_(loop), egress_(egress), pins_(pins), limits_(limits) {}

  Task<session::ServerOffer> list(session::ServerWay way,
                                  std::vector<session::ServerGrant> servers) override;
  Task<Result<session::ServerReport>> call(session::ServerWay way,
                                           session::ServerOrder order) override;

  // Ends conversations that nobody uses, as long as the process runs.
  Task<> keep_tidy();

  static mcp::ClientLimits usual_limits() { return {.question_time = std::chrono::seconds(20)}; }
  const ServerCounts& counts() const { return counts_; }
  void write_metrics(telemetry::Page& page) const;
  std::size_t open() const { return conversations_.size(); }

 private:
  // One question at a time.
  struct Conversation;
  using Shared = std::shared_ptr<Conversation>;
  struct Listed;

  Task<Result<Shared>> converse(const session::ServerWay& way, const session::ServerGrant& server);
  Task<> list_one(session::ServerWay way, session::ServerGrant server, Listed& into);
  Task<Result<void>> wait_for_turn(Shared conversation, TimePoint deadline);
  void make_room();

  linux::Loop& loop_;
  http::Client& egress_;
  ServerPins& pins_;
  mcp::ClientLimits limits_;
  ServerCounts counts_;
  std::map<std::string, Shared> conversations_;  // by session and server
};

}  // namespace pons::brain
