#include "undertaker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/linux/child.h"
#include "pons/linux/unix_socket.h"

namespace pons::spawner {

namespace {

using linux::UniqueFd;

constexpr int kSocketInChild = 3;
constexpr std::size_t kMessageBytesMax = 8192;
constexpr std::size_t kDescriptorsMax = 64;
constexpr int kLookAgainMs = 5;
constexpr auto kPatience = std::chrono::seconds(10);

using Clock = std::chrono::steady_clock;

struct Group {
  std::string directory;
  Clock::time_point given_up;
};

// True when there is no more to do about it. A group can be busy for a moment after its last
// process has ended.
bool is_removed(const Group& group) {
  if (rmdir(group.directory.c_str()) == 0 || errno == ENOENT) return true;
  if (Clock::now() < group.given_up) return false;
  LOG_ERROR("a control group is left behind", {"error", os_error("remove group", group.directory)});
  return true;
}

class Work {
 public:
  // The groups first: meanwhile the supervisor lets go of its copies of the descriptors.
  void add(std::string_view groups, std::vector<UniqueFd> descriptors) {
    for (const std::string_view directory : split(groups, '\n'))
      if (!directory.empty()) busy_.push_back({std::string(directory), Clock::now() + kPatience});
    look_again();
    descriptors.clear();
  }
  void look_again() { std::erase_if(busy_, is_removed); }
  bool is_done() const { return busy_.empty(); }

 private:
  std::vector<Group> busy_;
};

void serve(int socket) {
  Work work;
  for (bool open = true; open || !work.is_done();) {
    auto message = open ? linux::receive_message(socket, kMessageBytesMax, kDescriptorsMax)
                        : Result<std::optional<linux::Message>>(std::nullopt);
    if (!message) {
      open = false;  // the spawner is gone: what is begun is finished
      if (message.error().code != ErrorCode::kUnavailable)
        LOG_WARN("nothing more can be taken down", {"error", message.error()});
    } else if (*message) {
      work.add((*message)->bytes, std::move((*message)->descriptors));
      continue;
    }
    work.look_again();
    pollfd ready{.fd = open ? socket : -1, .events = POLLIN, .revents = 0};
    poll(&ready, 1, work.is_done() ? (open ? -1 : 0) : kLookAgainMs);
  }
}

}  // namespace

Result<Undertaker> Undertaker::start() {
  auto [ours, theirs] = TRY(linux::create_socket_pair(SOCK_SEQPACKET));
  linux::Forked child = TRY(linux::fork_process());
  if (child.pid == 0) {
    prctl(PR_SET_NAME, "undertaker");
    // It must hold nothing of the spawner's: a copy would keep alive what others have let go.
    if (dup2(theirs.get(), kSocketInChild) < 0) _exit(1);
    close_range(kSocketInChild + 1, ~0U, 0);
    // The spawner is told to stop, and ends it when nothing is left to do.
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    serve(kSocketInChild);
    _exit(0);
  }
  return Undertaker(std::move(ours), std::move(child.pidfd));
}

void Undertaker::take(Remains remains) {
  const std::string text = fmt::format("{}\n", fmt::join(remains.groups, "\n"));
  std::vector<int> numbers;
  for (const UniqueFd& descriptor : remains.descriptors) numbers.push_back(descriptor.get());
  if (socket_ && linux::send_message(socket_.get(), text, numbers)) return;
  Work here;
  here.add(text, std::move(remains.descriptors));
  for (int i = 0; i < 20 && !here.is_done(); ++i) {
    usleep(kLookAgainMs * 1000);
    here.look_again();
  }
}

void Undertaker::finish(std::chrono::milliseconds time) {
  socket_.reset();
  pollfd end{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  poll(&end, 1, static_cast<int>(time.count()));
}

}  // namespace pons::spawner
