#include "sandboxes.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ranges>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/cell/image.h"
#include "pons/linux/loop_image.h"
#include "switch_view.h"

namespace pons::spawner {

std::string name_of_key(std::uint64_t key) {
  return fmt::format("{:016x}", key);
}

std::string socket_path(std::uint64_t key) {
  return fmt::format("cells/{:016x}", key);
}

namespace {

using linux::UniqueFd;

constexpr std::uint64_t kSharedMemoryBytesMax = 64ULL << 20;
constexpr int kCellBacklog = 16;

sockaddr_un address_of(std::uint64_t key) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, socket_path(key).c_str());
  return address;
}

Result<UniqueFd> local_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return os_error("create socket");
  return fd;
}

Result<UniqueFd> listen_for_warden(std::uint64_t key) {
  UniqueFd fd = TRY(local_socket());
  const sockaddr_un address = address_of(key);
  unlink(address.sun_path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd.get(), kCellBacklog) != 0)
    return os_error("listen for the warden");
  return fd;
}

// The cell's program as a file that nobody inside can read: the kernel then refuses to let a
// sandbox's root trace its first process, whatever capabilities it has there.
Result<UniqueFd> load_cell() {
  const UniqueFd writable(memfd_create("cell", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!writable) return os_error("load the cell");
  const auto image = cell::cell_image();
  TRY_VOID(linux::write_all(writable.get(),
                            {reinterpret_cast<const char*>(image.data()), image.size()}));
  if (fchmod(writable.get(), 0111) != 0 ||
      fcntl(writable.get(), F_ADD_SEALS,
            F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
    return os_error("seal the cell");
  // A file that is open for writing cannot be executed.
  return linux::open_file(fmt::format("/proc/self/fd/{}", writable.get()), O_PATH);
}

// Tells the control groups of this state directory from those of another Pons on the same host.
Result<std::string> load_instance() {
  if (auto known = linux::read_file("instance"); known && parse_hex(trim(*known)))
    return std::string(trim(*known));
  std::uint64_t random = 0;
  random_bytes(&random, sizeof random);
  const std::string name = fmt::format("{:016x}", random);
  TRY_VOID(linux::write_file_atomically("instance", name, 0600));
  return name;
}

linux::CgroupLimits group_limits(const SandboxLimits& limits) {
  linux::CgroupLimits wanted;
  if (limits.memory_bytes != 0) wanted.memory_bytes = limits.memory_bytes;
  if (limits.memory_bytes != 0) wanted.swap_bytes = limits.swap_bytes;
  if (limits.pids != 0) wanted.pids = limits.pids;
  if (limits.cpu_percent != 0) wanted.cpu_percent = static_cast<std::uint32_t>(limits.cpu_percent);
  return wanted;
}

linux::IoLimits io_limits(const SandboxLimits& limits) {
  return {.read_bytes = limits.io_read_bytes,
          .write_bytes = limits.io_write_bytes,
          .read_operations = limits.io_read_operations,
          .write_operations = limits.io_write_operations};
}

std::span<const Digest> template_layers(const Create& create) {
  return std::span(create.template_layers).first(create.template_layer_count);
}

// 0 when it stands or is still being made. On loopback a refusal comes at once; a server that takes
// nobody for the moment answers nothing, and is not waited for.
int connect_loopback(int socket, int family, std::uint16_t port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  six.sin6_addr = in6addr_loopback;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_six = family == AF_INET6;
  const auto* address =
      is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  if (::connect(socket, address, is_six ? sizeof six : sizeof four) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd made{.fd = socket, .events = POLLOUT, .revents = 0};
  if (poll(&made, 1, 0) != 1) return 0;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::unexpected<Failure> failure(Step step, int error) {
  return std::unexpected(Failure{step, error});
}

Result<void> make_directory(const char* name) {
  if (mkdir(name, 0700) != 0 && errno != EEXIST) return os_error("make directory", name);
  return {};
}

// "some avg10=0.12 avg60=…": hundredths of a percent.
std::uint64_t read_pressure(int group, const char* file) {
  const UniqueFd fd(openat(group, file, O_RDONLY | O_CLOEXEC));
  const auto text = fd ? linux::read_all(fd.get(), 4096) : Result<std::string>(os_error("read"));
  if (!text) return ~0ULL;
  const auto at = text->find("avg10=");
  if (at == std::string::npos) return ~0ULL;
  return static_cast<std::uint64_t>(std::strtod(text->c_str() + at + 6, nullptr) * 100);
}

}  // namespace

Sandboxes::Sandboxes(Privileges privileges, roles::Keeper& keeper, Undertaker undertaker,
                     Grounds grounds, StagedTrees trees)
    : privileges_(privileges),
      keeper_(keeper),
      undertaker_(std::move(undertaker)),
      grounds_(std::move(grounds)),
      trees_(std::move(trees)),
      io_throttle_(os_error("limit io", "there are no control groups", EOPNOTSUPP)) {}

Result<Sandboxes> Sandboxes::create(roles::Keeper& keeper, Privileges privileges,
                                    LayerMounts layer_mounts) {
  for (const char* name : {"cells", "layers", "root", "stores", kImageDirectory})
    TRY_VOID(make_directory(name));
  auto undertaker = TRY(Undertaker::start());
  auto grounds = TRY(Grounds::create(privileges));
  Sandboxes all(privileges, keeper, std::move(undertaker), std::move(grounds),
                TRY(StagedTrees::build("stage", privileges)));
  all.group_prefix_ = fmt::format("pons-{}-", TRY(load_instance()));
  all.layer_mounts_ = layer_mounts;
  all.filter_ = TRY(sandbox_filter(NestedUserNamespaces::kRefused));
  all.filter_with_nesting_ = TRY(sandbox_filter(NestedUserNamespaces::kAllowed));
  all.program_ = TRY(load_cell());
  all.null_device_ = TRY(linux::open_file("/dev/null", O_RDWR));
  all.listener_place_ = TRY(linux::duplicate(all.null_device_.get()));
  all.find_control_groups();
  if (!linux::can_create_ext4_images())
    LOG_WARN("no sandbox can have a disk: mkfs.ext4 is missing; install the package e2fsprogs");
  TRY_VOID(all.adopt_kept());
  all.remove_leftovers();
  return all;
}

void Sandboxes::find_control_groups() {
  auto hierarchy = linux::CgroupHierarchy::detect();
  if (!hierarchy) return;
  // A user has control groups only where somebody delegated them, which version 1 does not know.
  const bool own = privileges_ == Privileges::kOwnNamespace;
  auto delegated = own && hierarchy->version() != 2
                       ? Result<void>(os_error("use control groups", "of version 1", EPERM))
                       : hierarchy->delegate();
  if (!delegated) LOG_WARN("control groups cannot be made", {"error", delegated.error()});
  if (!delegated && own) return;
  io_throttle_ = linux::IoThrottle::find(*hierarchy);
  if (!io_throttle_) LOG_INFO("no limits on io of sandboxes", {"error", io_throttle_.error()});
  hierarchy_ = std::move(*hierarchy);
}

// ---- making

const Sandbox* Sandboxes::find(std::uint64_t key) const {
  const auto found = sandboxes_.find(key);
  return found == sandboxes_.end() ? nullptr : &found->second;
}

linux::Cgroup* Sandboxes::find_cgroup(std::uint64_t key) {
  const auto found = sandboxes_.find(key);
  return found == sandboxes_.end() || !found->second.cgroup ? nullptr : &*found->second.cgroup;
}

std::optional<std::string> Sandboxes::discard_layer(std::uint64_t key, std::uint32_t number) {
  const Sandbox* sandbox = find(key);
  if (sandbox == nullptr) return std::nullopt;
  auto aside = sandbox->store->discard_layer(number);
  return aside ? std::optional(std::move(*aside)) : std::nullopt;
}

ViewSources Sandboxes::sources_of(Sandbox& sandbox, const Create& create) const {
  return {.privileges = privileges_,
          .sandbox = sandbox.key,
          .slot = sandbox.slot,
          .user_namespace = sandbox.user_namespace.get(),
          .clones = sandbox.layers,
          .store = *sandbox.store,
          .borrowed = sandbox.borrowed,
          .template_layers = template_layers(create),
          .layer_directory = layer_directory_,
          .layer_mounts = layer_mounts_};
}

Outcome<std::vector<Borrowed>> Sandboxes::borrow(const Request& request, std::uint32_t slot) const {
  std::vector<Borrowed> lenders;
  for (const OwnLayer& layer : std::span(request.view.layers).first(request.view.layer_count)) {
    if (layer.sandbox == request.sandbox ||
        std::ranges::find(lenders, layer.sandbox, &Borrowed::sandbox) != lenders.end())
      continue;
    Borrowed lender{.sandbox = layer.sandbox, .slot = 0, .store = nullptr, .mapped = nullptr};
    for (const auto& [key, other] : sandboxes_) {
      if (key == layer.sandbox) {
        lender.slot = other.slot;
        lender.store = other.store;
      }
      // A fork of a fork stands on what its parent had borrowed.
      for (const Borrowed& theirs : other.borrowed) {
        if (theirs.sandbox != layer.sandbox) continue;
        lender.slot = theirs.slot;
        lender.store = theirs.store;
      }
    }
    if (!lender.store) return failure(Step::kStore, ENOENT);
    lender.mapped = std::make_shared<const Store>(STEP(Step::kStore, lend(request, lender, slot)));
    lenders.push_back(std::move(lender));
  }
  return lenders;
}

Result<Store> Sandboxes::lend(const Request& request, const Borrowed& lender,
                              std::uint32_t slot) const {
  auto lent = map_store(*lender.store, lender.slot, slot, privileges_);
  if (layer_mounts_ == LayerMounts::kDetached) return lent;
  if (!lent) {
    std::vector<std::uint32_t> numbers;
    for (const OwnLayer& layer : std::span(request.view.layers).first(request.view.layer_count))
      if (layer.sandbox == lender.sandbox) numbers.push_back(layer.number);
    lent = TRY(copy_store(*lender.store, numbers, request.create.limits, lender.slot, slot));
  }
  TRY_VOID(lent->attach(fmt::format("stores/{:016x}-{:016x}", request.sandbox, lender.sandbox)));
  return lent;
}

Outcome<std::shared_ptr<const Store>> Sandboxes::create_store(const Request& request) const {
  const bool on_disk = (request.create.flags & kDiskUpper) != 0;
  Store store = STEP(Step::kStore, on_disk ? Store::create_on_disk(request.create.limits)
                                           : Store::create_in_memory(request.create.limits));
  if (layer_mounts_ == LayerMounts::kAttached)
    STEP_VOID(Step::kStore, store.attach("stores/" + name_of_key(request.sandbox)));
  return std::make_shared<const Store>(std::move(store));
}

// How a sandbox comes to be.
Outcome<Sandbox> Sandboxes::build(const Request& request, int listener) {
  const Create& create = request.create;
  Ground ground = STEP(Step::kUserNamespace, grounds_.take());
  struct GiveBack {
    Grounds& grounds;
    std::uint32_t slot;
    bool armed = true;
    ~GiveBack() {
      if (armed) grounds.release(slot);
    }
  } give_back{grounds_, ground.slot};

  Sandbox sandbox;
  sandbox.key = request.sandbox;
  sandbox.slot = ground.slot;
  sandbox.upper = request.view.upper;
  if (hierarchy_)
    sandbox.cgroup = STEP(
        Step::kCgroup,
        hierarchy_->create(group_prefix_ + name_of_key(sandbox.key), group_limits(create.limits)));
  sandbox.store = PASS(create_store(request));
  sandbox.traffic_before = find_traffic_before(sandbox.store->fd());
  sandbox.borrowed = PASS(borrow(request, ground.slot));
  sandbox.layers = std::move(ground.layers);
  ViewSources sources = sources_of(sandbox, create);
  sources.user_namespace = ground.user_namespace.get();
  const bool allow_setuid = (create.flags & kAllowSudo) != 0;
  auto view = PASS(build_view(request.view, sources, allow_setuid));
  auto process = PASS(start_cell(
      {.privileges = privileges_,
       .ground = ground,
       .cgroup = sandbox.cgroup ? &*sandbox.cgroup : nullptr,
       .root = std::move(view),
       .trees = trees_,
       .show_host = std::ranges::any_of(template_layers(create), is_host_layer),
       .filter =
           (create.flags & kAllowNestedUserNamespaces) != 0 ? *filter_with_nesting_ : *filter_,
       .allow_setuid = allow_setuid,
       .login_shell = (create.flags & kLoginShell) != 0,
       .shared_memory_bytes = std::min(kSharedMemoryBytesMax, create.limits.memory_bytes / 4),
       .processes_max = sandbox.cgroup ? 0 : create.limits.pids,
       .listener = listener,
       .program = program_.get(),
       .null_device = null_device_.get(),
       .home_net_namespace = grounds_.home().fd(),

       .die_with_spawner = !sandbox.cgroup || privileges_ == Privileges::kOwnNamespace}));
  sandbox.user_namespace = std::move(ground.user_namespace);
  sandbox.net_namespace = std::move(ground.net_namespace);
  sandbox.mount_namespace = std::move(process.mount_namespace);
  sandbox.cell = std::move(process.child.pidfd);
  give_back.armed = false;
  return sandbox;
}

Outcome<UniqueFd> Sandboxes::create_sandbox(const Request& request) {
  if (find(request.sandbox) != nullptr) return connect(request.sandbox);
  const SandboxLimits& limits = request.create.limits;
  if (limits.disk_bytes == 0 || limits.disk_inodes == 0 || limits.memory_bytes == 0 ||
      request.create.template_layer_count == 0)
    return failure(Step::kLimits, EINVAL);
  PASS_VOID(check_io_limits(limits, (request.create.flags & kDiskUpper) != 0));
  const UniqueFd listener = STEP(Step::kSocket, listen_for_warden(request.sandbox));
  struct Place {
    int place, empty;
    ~Place() { CHECK(dup3(empty, place, O_CLOEXEC) == place); }
  } const place{listener_place_.get(), null_device_.get()};
  if (dup3(listener.get(), place.place, O_CLOEXEC) < 0) return failure(Step::kSocket, errno);
  auto built = build(request, place.place);
  if (!built) {
    unlink(socket_path(request.sandbox).c_str());
    return std::unexpected(built.error());
  }
  Sandbox& sandbox = sandboxes_.emplace(request.sandbox, std::move(*built)).first->second;
  STEP_VOID(Step::kKeep, deposit(sandbox));
  // Also where none are asked for: the device may have those of another that was killed.
  PASS_VOID(set_io_limits(sandbox, limits));
  return connect(request.sandbox);
}

Outcome<UniqueFd> Sandboxes::connect(std::uint64_t key) const {
  UniqueFd fd = STEP(Step::kConnect, local_socket());
  const sockaddr_un address = address_of(key);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failure(Step::kConnect, errno);
  return fd;
}

// ---- living

Outcome<> Sandboxes::switch_view(const Request& request) {
  if (request.create.template_layer_count == 0) return failure(Step::kTemplateLayer, EINVAL);
  // Asked again after a lost answer. A new upper of that number would stand where the mounted one
  // does.
  if (PASS(find_upper(request.sandbox)) == request.view.upper) return {};
  Sandbox& sandbox = sandboxes_.at(request.sandbox);
  // The cell and the shell it keeps waiting do not mind a moment between two views.
  const std::uint64_t waiting = std::clamp(request.argument, std::uint64_t{1}, std::uint64_t{2});
  const auto more_than_waiting = [&] {
    return !sandbox.cgroup || sandbox.cgroup->process_count().value_or(waiting + 1) > waiting;
  };
  if (request.view.must_seal == kSealAlone && more_than_waiting())
    return failure(Step::kSeal, EBUSY);
  const auto sources = sources_of(sandbox, request.create);
  auto view = PASS(build_view(request.view, sources, (request.create.flags & kAllowSudo) != 0));
  struct Thaw {
    Sandbox* sandbox = nullptr;
    ~Thaw() {
      // Still frozen it could not even be killed, so that has to be known.
      if (sandbox != nullptr) sandbox->frozen = !sandbox->cgroup->thaw();
    }
  } thaw_after;
  if (sandbox.cgroup && !sandbox.frozen && more_than_waiting()) {
    STEP_VOID(Step::kFreeze, sandbox.cgroup->freeze());
    thaw_after.sandbox = &sandbox;
  }
  auto switched = spawner::switch_view(
      sandbox.mount_namespace.get(), std::move(view),
      request.view.must_seal != 0 ? Seal::kRequired : Seal::kIfPossible,
      (request.create.flags & kAllowNestedUserNamespaces) != 0 ? SealScope::kEveryMount
                                                               : SealScope::kOneMount);
  if (switched)
    sandbox.upper = request.view.upper;
  else if (switched.error().step == Step::kSwitch)
    sandbox.upper.reset();
  return switched;
}

Outcome<std::uint32_t> Sandboxes::find_upper(std::uint64_t key) {
  Sandbox& sandbox = sandboxes_.at(key);
  if (!sandbox.upper)
    sandbox.upper = STEP(Step::kSwitch, find_mounted_upper(sandbox.mount_namespace.get()));
  return *sandbox.upper;
}

Outcome<> Sandboxes::set_limits(const Request& request) {
  Sandbox& sandbox = sandboxes_.at(request.sandbox);
  const SandboxLimits& limits = request.create.limits;
  PASS_VOID(check_io_limits(limits, is_disk_image(sandbox.store->fd())));
  if (limits.disk_bytes != 0 && limits.disk_inodes != 0)
    STEP_VOID(Step::kStore, sandbox.store->resize(limits));
  if (sandbox.cgroup) STEP_VOID(Step::kLimits, sandbox.cgroup->set_limits(group_limits(limits)));
  return set_io_limits(sandbox, limits);
}

Outcome<> Sandboxes::check_io_limits(const SandboxLimits& limits, bool on_disk) const {
  if (io_limits(limits) == linux::IoLimits{}) return {};
  if (!on_disk) return failure(Step::kIoLimits, EINVAL);
  STEP_VOID(Step::kIoLimits, io_throttle_);
  return {};
}

Outcome<> Sandboxes::set_io_limits(const Sandbox& sandbox, const SandboxLimits& limits) const {
  if (!io_throttle_ || !sandbox.cgroup || !is_disk_image(sandbox.store->fd())) return {};
  STEP_VOID(Step::kIoLimits, io_throttle_->set(*sandbox.cgroup, disk_device(sandbox.store->fd()),
                                               io_limits(limits)));
  return {};
}

Outcome<> Sandboxes::freeze(std::uint64_t key) {
  Sandbox& sandbox = sandboxes_.at(key);
  if (!sandbox.cgroup) return failure(Step::kFreeze, EOPNOTSUPP);
  STEP_VOID(Step::kFreeze, sandbox.cgroup->freeze());
  sandbox.frozen = true;
  return {};
}

Outcome<bool> Sandboxes::thaw(std::uint64_t key) {
  Sandbox& sandbox = sandboxes_.at(key);
  if (!sandbox.cgroup) return failure(Step::kFreeze, EOPNOTSUPP);
  const bool was_frozen = sandbox.cgroup->is_frozen();
  STEP_VOID(Step::kFreeze, sandbox.cgroup->thaw());
  sandbox.frozen = false;
  return was_frozen;
}

Outcome<UniqueFd> Sandboxes::dial(std::uint64_t key, std::uint16_t port) {
  const Sandbox& sandbox = sandboxes_.at(key);
  const auto dial_family = [&](int family) -> Outcome<UniqueFd> {
    UniqueFd fd;
    // A socket belongs for ever to the namespace it was made in.
    STEP_VOID(Step::kDial, grounds_.visit(sandbox.net_namespace.get(), [&]() -> Result<void> {
      fd = UniqueFd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (!fd) return os_error("dial");
      return {};
    }));
    if (const int error = connect_loopback(fd.get(), family, port))
      return failure(Step::kDial, error);
    return fd;
  };
  // Servers that say "localhost" may mean either.
  auto first = dial_family(AF_INET);
  if (first || first.error().os_error != ECONNREFUSED) return first;
  auto second = dial_family(AF_INET6);
  return second ? std::move(second) : std::move(first);
}

Outcome<std::vector<UniqueFd>> Sandboxes::open_network(std::uint64_t key) {
  Sandbox& sandbox = sandboxes_.at(key);
  std::vector<UniqueFd> sockets;
  STEP_VOID(Step::kWayOut, grounds_.visit(sandbox.net_namespace.get(), [&]() -> Result<void> {
    WayOut way_out = TRY(open_way_out());
    sandbox.rules.emplace(std::move(way_out.rules));
    sockets.push_back(std::move(way_out.listener));
    sockets.push_back(std::move(way_out.names));
    return {};
  }));
  return sockets;
}

Outcome<> Sandboxes::usage(std::uint64_t key, Values& values) const {
  const Sandbox& sandbox = sandboxes_.at(key);
  values.fill(~0ULL);
  if (sandbox.cgroup) {
    const auto group = sandbox.cgroup->usage();
    values[kMemoryBytes] = group.memory_bytes.value_or(~0ULL);
    values[kMemoryCacheBytes] = group.memory_cache_bytes.value_or(~0ULL);
    values[kMemoryPeakBytes] = group.memory_peak_bytes.value_or(~0ULL);
    values[kCpuUsec] = group.cpu_usec.value_or(~0ULL);
    values[kPids] = group.pids.value_or(~0ULL);
    values[kOomKills] = group.oom_kills.value_or(~0ULL);
    values[kPidsRefused] = group.pids_refused.value_or(~0ULL);
    if (const int directory = sandbox.cgroup->directory_fd(); directory >= 0) {
      values[kMemoryPressure] = read_pressure(directory, "memory.pressure");
      values[kCpuPressure] = read_pressure(directory, "cpu.pressure");
      values[kIoPressure] = read_pressure(directory, "io.pressure");
    }
  }
  struct statfs disk{};
  if (fstatfs(sandbox.store->fd(), &disk) != 0) return failure(Step::kStore, errno);
  values[kDiskBytes] = (disk.f_blocks - disk.f_bfree) * static_cast<std::uint64_t>(disk.f_bsize);
  values[kDiskInodes] = disk.f_files - disk.f_ffree;
  const auto& before = sandbox.traffic_before;
  const auto traffic = before ? find_traffic_since(sandbox.store->fd(), *before) : std::nullopt;
  if (traffic) {
    values[kIoReadBytes] = traffic->read_bytes;
    values[kIoWriteBytes] = traffic->write_bytes;
    values[kIoReadOperations] = traffic->read_operations;
    values[kIoWriteOperations] = traffic->write_operations;
  }
  return {};
}

Outcome<std::vector<std::string>> Sandboxes::discard_layers(const Request& request) {
  const Sandbox& sandbox = sandboxes_.at(request.sandbox);
  std::vector<std::string> names;
  for (const OwnLayer& layer : std::span(request.view.layers).first(request.view.layer_count)) {
    auto aside = sandbox.store->discard_layer(layer.number);
    if (!aside && aside.error().code == ErrorCode::kNotFound) continue;
    names.push_back(STEP(Step::kDelete, std::move(aside)));
  }
  return names;
}

// ---- ending

std::optional<Sandbox> Sandboxes::condemn(std::uint64_t key) {
  auto node = sandboxes_.extract(key);
  if (!node) return std::nullopt;
  Sandbox sandbox = std::move(node.mapped());
  // The kernel ends every process of a pid namespace with its first one.
  if (sandbox.cell) syscall(SYS_pidfd_send_signal, sandbox.cell.get(), SIGKILL, nullptr, 0);
  // Nor do processes that wait for a slow disk.
  if (sandbox.store) (void)set_io_limits(sandbox, {});
  // Frozen processes do not die before they are thawed.
  if (sandbox.cgroup && sandbox.frozen) (void)sandbox.cgroup->thaw();
  return sandbox;
}

// Layers that a living sandbox stands on are needed after the end of the one that wrote them.
bool Sandboxes::is_needed(std::uint64_t writer) const {
  return sandboxes_.contains(writer) || std::ranges::any_of(sandboxes_, [&](const auto& entry) {
           const auto& borrowed = entry.second.borrowed;
           return std::ranges::find(borrowed, writer, &Borrowed::sandbox) != borrowed.end();
         });
}

void Sandboxes::bury(Sandbox sandbox) {
  bool ended = false;
  if (sandbox.cell) {
    siginfo_t info{};
    waitid(P_PIDFD, static_cast<id_t>(sandbox.cell.get()), &info, WEXITED | WNOHANG);
    // A cell of a former process of the spawner is not this one's child, but ends as visibly. The
    // first process of a pid namespace ends last.
    pollfd end{.fd = sandbox.cell.get(), .events = POLLIN, .revents = 0};
    ended = poll(&end, 1, 0) == 1;
  }
  Undertaker::Remains remains;
  // Whoever still lives in it is killed here.
  if (sandbox.cgroup && ended) remains.groups = std::move(*sandbox.cgroup).give_up();
  sandbox.cgroup.reset();
  if (sandbox.store && !is_needed(sandbox.key)) sandbox.store->abandon();
  for (const Borrowed& lender : sandbox.borrowed)
    if (!is_needed(lender.sandbox)) lender.store->abandon();
  unlink(socket_path(sandbox.key).c_str());
  withdraw(sandbox);
  Ground ground{.slot = sandbox.slot,
                .user_namespace = std::move(sandbox.user_namespace),
                .net_namespace = std::move(sandbox.net_namespace),
                .layers = std::move(sandbox.layers)};
  // Not while a process of it may live, or files of its ids that others stand on.
  if (!ended || is_needed(sandbox.key) || !grounds_.recycle(ground)) {
    grounds_.release(ground.slot);
    remains.descriptors = std::move(ground.layers).give_up();
  }
  remains.descriptors.push_back(std::move(sandbox.mount_namespace));
  if (sandbox.store.use_count() == 1)
    if (auto last = linux::duplicate(sandbox.store->fd()))
      remains.descriptors.push_back(std::move(*last));
  std::erase_if(remains.descriptors, [](const UniqueFd& fd) { return !fd; });
  undertaker_.take(std::move(remains));
}

std::vector<std::uint64_t> Sandboxes::keys_after(std::uint64_t key, std::size_t count_max) const {
  std::vector<std::uint64_t> keys;
  for (auto next = sandboxes_.upper_bound(key); next != sandboxes_.end() && keys.size() < count_max;
       ++next)
    keys.push_back(next->first);
  return keys;
}

NamespacesReady Sandboxes::namespaces_ready() const {
  return {.user = grounds_.prepared() + grounds_.rested(),
          .net = grounds_.prepared(),
          .mount = trees_.bare_namespace() < 0 ? 0U : 1U};
}

bool Sandboxes::prepare_one() {
  const auto prepared = grounds_.prepare_one();
  if (!prepared) LOG_WARN("cannot prepare namespaces", {"error", prepared.error()});
  return prepared && *prepared;
}

}  // namespace pons::spawner
