#include "ground.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/linux/mount.h"
#include "pons/spawner/left_out.h"

namespace pons::spawner {

namespace {

using linux::NamespaceKind;
using linux::UniqueFd;

constexpr std::size_t kPreparedMax = 8;
// Not counted with those that are prepared: what is prepared next is made of these.
constexpr std::size_t kRestedMax = 8;

Result<void> bring_loopback_up() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return os_error("open socket");
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP;
  if (ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return os_error("bring loopback up");
  return {};
}

struct ComeHome {  // whatever happens on the visit
  const linux::NamespaceFd& home;
  ~ComeHome() { CHECK(home.enter().has_value()); }
};

class Holder {  // a process that does nothing but be in a namespace
 public:
  explicit Holder(pid_t pid) : pid_(pid) {}
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace

Result<UniqueFd> create_user_namespace(const linux::IdMap& map) {
  linux::Pipe visible = TRY(linux::create_pipe());
  const pid_t parent = getpid();
  const long pid =
      syscall(SYS_clone, CLONE_NEWUSER | CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, 0);
  if (pid < 0) return os_error("create user namespace");
  if (pid == 0) {
    // Nobody else would ever end it.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
    // The spawner hides its memory, a copy of which this is, and /proc hides such processes.
    prctl(PR_SET_DUMPABLE, 1);
    if (write(visible.write_end.get(), "", 1) != 1) _exit(0);
    for (;;) pause();
  }
  const Holder holder(static_cast<pid_t>(pid));
  char byte;
  if (read(visible.read_end.get(), &byte, 1) != 1) return os_error("create user namespace");
  const std::span<const linux::IdMap> maps(&map, 1);
  TRY_VOID(linux::write_id_maps(holder.pid(), maps, maps));
  return linux::open_file(fmt::format("/proc/{}/ns/user", holder.pid()), O_RDONLY);
}

Result<Grounds> Grounds::create(Privileges privileges) {
  auto home = TRY(linux::NamespaceFd::open_current(NamespaceKind::kNet));
  if (privileges == Privileges::kOwnNamespace) {
    // A new /proc is refused to who does not own the pid namespace; this one was not sealed.
    UniqueFd processes = TRY(linux::open_file("/proc", O_PATH | O_DIRECTORY));
    return Grounds(privileges, std::move(home), std::move(processes));
  }
  const auto processes = TRY(linux::DetachedMount::new_filesystem("proc", {}));
  return Grounds(privileges, std::move(home), TRY(linux::duplicate(processes.fd())));
}

Result<UniqueFd> Grounds::make_net_namespace() {
  TRY_VOID(linux::unshare_namespaces({NamespaceKind::kNet}));
  const ComeHome come_home{home_};
  auto made = TRY(linux::open_file("/proc/self/ns/net", O_RDONLY));
  TRY_VOID(bring_loopback_up());
  // Root in the sandbox has no capability over this namespace, and could not listen on port 80.
  const UniqueFd port(
      openat(processes_.get(), "sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY | O_CLOEXEC));
  if (!port) return os_error("open network settings");
  TRY_VOID(linux::write_all(port.get(), "0"));
  return made;
}

Result<void> Grounds::visit(int net_namespace, const std::function<Result<void>()>& work) const {
  if (setns(net_namespace, CLONE_NEWNET) != 0) return os_error("enter network namespace");
  const ComeHome come_home{home_};
  return work();
}

bool Grounds::recycle(Ground& ground) {
  if (!ground.user_namespace || rested_.size() >= kRestedMax) return false;
  ground.net_namespace.reset();
  rested_.push_back(std::move(ground));
  return true;
}

Result<Ground> Grounds::make_users() {
  if (used_.size() >= kSlotCount)
    return make_error(ErrorCode::kLimit, "find user ids", "every range of user ids is in use");
  while (used_.contains(next_slot_)) next_slot_ = (next_slot_ + 1) % kSlotCount;
  Ground ground;
  ground.slot = next_slot_;
  ground.user_namespace = TRY(create_user_namespace(
      privileges_ == Privileges::kHostRoot
          ? linux::IdMap{.inside = 0, .outside = first_id_of(ground.slot), .count = kIdsPerSandbox}
          : linux::IdMap{.inside = kOnlyUser, .outside = 0, .count = 1}));
  if (is_protection_left_out("uid_ranges")) return ground;
  used_.insert(ground.slot);
  // The next range and not the lowest free one, for the same reason.
  next_slot_ = (next_slot_ + 1) % kSlotCount;
  return ground;
}

Result<Ground> Grounds::make_one() {
  auto network = TRY(make_net_namespace());
  if (rested_.empty()) rested_.push_back(TRY(make_users()));
  // The one that has rested longest: what a dead sandbox left behind meets its ids late.
  Ground ground = std::move(rested_.front());
  rested_.pop_front();
  ground.net_namespace = std::move(network);
  return ground;
}

Result<Ground> Grounds::take() {
  if (prepared_.empty()) return make_one();
  Ground ground = std::move(prepared_.front());
  prepared_.pop_front();
  return ground;
}

Result<bool> Grounds::prepare_one() {
  if (prepared_.size() >= kPreparedMax) return false;
  prepared_.push_back(TRY(make_one()));
  return true;
}

}  // namespace pons::spawner
