#include "pons/spawner/spawner.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "pons/base/log.h"
#include "pons/linux/signals.h"
#include "pons/linux/unix_socket.h"
#include "pons/roles/attempts.h"
#include "pons/roles/channel.h"
#include "pons/roles/confinement.h"
#include "pons/roles/keeper.h"
#include "pons/spawner/protocol.h"

namespace pons::spawner {

namespace {

class Spawner {
 public:
  explicit Spawner(const roles::RoleStart& start)
      : profile_(roles::profile_of(start.role)),
        context_{start.confinement.state_dir, start.confinement.supervisor},
        attempts_(roles::attempts_for(profile_)) {}

  Reply answer(const Request& request) const {
    Reply reply{.id = request.id};
    switch (request.kind) {
      case RequestKind::kIdentify: {
        const auto uptime = std::chrono::steady_clock::now() - started_;
        reply.values = {static_cast<std::uint64_t>(getpid()),
                        static_cast<std::uint64_t>(
                            std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count()),
                        attempts_.size()};
        break;
      }
      case RequestKind::kAttempt:
        if (request.argument >= attempts_.size()) {
          reply.status = Status::kBadRequest;
        } else {
          reply.os_error = attempts_[request.argument]->attempt(profile_, context_);
        }
        break;
    }
    return reply;
  }

 private:
  const roles::Profile& profile_;
  roles::SelfTestContext context_;
  std::vector<const roles::Attempt*> attempts_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// Requests that wait, a bounded number at a time: between them a signal is seen. False when the
// channel is over.
bool answer_waiting(const Spawner& spawner, int channel) {
  constexpr int kRequestsPerTurn = 64;
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    auto message = roles::receive_from_role(channel, sizeof(Request), 0);
    if (!message && message.error().code == ErrorCode::kUnavailable) return false;
    if (!message || (*message && !parse_request((*message)->bytes))) {
      LOG_WARN("a malformed request was dropped");
      continue;
    }
    if (!*message) return true;
    const Reply reply = spawner.answer(*parse_request((*message)->bytes));
    if (auto sent = linux::send_message(channel, bytes_of(reply), {}); !sent)
      LOG_WARN("a reply was lost: the warden does not read", {"error", sent.error()});
  }
  return true;
}

Result<void> serve(roles::RoleStart& start) {
  auto signals = TRY(linux::SignalFd::create({SIGTERM, SIGINT}));
  linux::ignore_sigpipe();
  const auto steps = TRY(roles::confine(roles::profile_of(start.role), start.confinement));
  for (const auto& step : steps)
    if (!step.note.empty())
      LOG_WARN("confinement is weaker than it could be", {"step", step.name}, {"why", step.note});
  const linux::UniqueFd channel = start.take("from:warden");
  const linux::UniqueFd line = start.take("keeper");
  TRY_VOID(roles::Keeper(line.get()).say_ready());
  const Spawner spawner(start);
  for (;;) {
    pollfd waiting[] = {{.fd = signals.fd(), .events = POLLIN, .revents = 0},
                        {.fd = channel.get(), .events = POLLIN, .revents = 0}};
    if (poll(waiting, 2, -1) < 0 && errno != EINTR) return os_error("wait for requests");
    if (signals.take()) return {};
    if (!answer_waiting(spawner, channel.get())) return {};
  }
}

}  // namespace

int run_spawner(roles::RoleStart start) {
  if (auto served = serve(start); !served) {
    LOG_ERROR("cannot serve", {"error", served.error()});
    return 1;
  }
  return 0;
}

}  // namespace pons::spawner
