#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "pons/base/result.h"
#include "pons/http/client.h"
#include "pons/http/router.h"
#include "pons/http/server.h"
#include "pons/linux/loop.h"
#include "pons/linux/signals.h"
#include "pons/roles/confinement.h"
#include "pons/roles/keeper.h"
#include "pons/roles/start.h"
#include "pons/telemetry/page.h"

namespace pons::supervisor {

// A role serves so many connections to each of the others at the same time.
inline constexpr std::size_t kConnectionsPerRole = 4'096;

// What every role that speaks HTTP runs on: confinement, one loop, the control socket, connections
// from other roles, clients to them, readiness and draining.
class RoleRuntime {
 public:
  // Confines the process before anything from outside is read.
  static Result<std::unique_ptr<RoleRuntime>> create(roles::RoleStart start);
  ~RoleRuntime();

  linux::Loop& loop() { return *loop_; }
  const roles::RoleStart& start() const { return start_; }
  linux::UniqueFd take_descriptor(std::string_view name) { return start_.take(name); }
  // A client to a role that the profile lets this one dial; any other is a bug.
  http::Client& client_to(roles::Role role);
  // For a client with limits of its own. Must not outlive this.
  http::Connector connector_to(roles::Role role);
  int channel_to(roles::Role role);
  // Descriptors that are to outlive this process. Used before run() or on the loop.
  roles::Keeper& keeper() { return keeper_; }

  // What this role has to say to programs that watch it. Whoever adds to it outlives run().
  telemetry::Registry& metrics() { return metrics_; }
  // Counts a further server of this role under a name of ours.
  void measure(const http::Server& server, std::string_view listener);

  // Beside the standard ones: GET /healthz, GET /identity; for the operator POST /selftest; for the
  // operator and the front GET /metrics.
  void add_routes(std::vector<http::Route> routes);
  // A further server of this role, drained together with the control socket's. Must outlive run().
  void drain_at_end(http::Server& server) { servers_.push_back(&server); }

  // The body of one request to the control socket may have so many bytes; before run().
  void set_body_bytes_max(std::uint64_t bytes) { body_bytes_max_ = bytes; }
  // Last work of the role, begun at SIGTERM when its servers have drained. A
  // process that is killed does not do it.
  using LastWork = std::function<Task<>(TimePoint deadline)>;
  void at_end(LastWork work) { last_work_ = std::move(work); }

  // Serves until SIGTERM, drains, and returns the process's exit code.
  int run();

 private:
  RoleRuntime(roles::RoleStart start, std::vector<roles::ConfinementStep> confinement,
              std::unique_ptr<linux::Loop> loop, linux::SignalFd signals);
  Result<void> open_control();
  Task<> wait_for_end();
  Task<> answer_identity(http::Exchange& exchange);
  Task<> answer_self_test(http::Exchange& exchange);
  Task<> answer_metrics(http::Exchange& exchange);

  roles::RoleStart start_;
  std::vector<roles::ConfinementStep> confinement_;
  std::unique_ptr<linux::Loop> loop_;
  linux::SignalFd signals_;
  TimePoint started_;
  telemetry::Registry metrics_;
  roles::Keeper keeper_;
  std::map<std::string, linux::UniqueFd, std::less<>> to_roles_;
  std::map<std::string, linux::UniqueFd, std::less<>> from_roles_;
  std::map<roles::Role, std::unique_ptr<http::Client>> clients_;
  std::vector<http::Route> routes_;
  std::vector<http::Server*> servers_;
  LastWork last_work_;
  std::uint64_t body_bytes_max_ = 1024 * 1024;
  std::unique_ptr<http::Server> control_;
};

// True when the request came from another role and has been answered with 403: some questions are
// for whoever may open the control socket, and for nobody else.
bool refuse_unless_operator(http::Exchange& exchange);

}  // namespace pons::supervisor
