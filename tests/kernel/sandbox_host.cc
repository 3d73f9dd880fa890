#include "sandbox_host.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "pons/linux/mount.h"
#include "pons/linux/unix_socket.h"
#include "pons/templates/host_layer.h"

namespace pons::spawner {

namespace {

[[noreturn]] void keep_descriptors(int line) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto loop = std::move(*linux::Loop::create());
  roles::DescriptorStore store;
  loop->spawn(roles::serve_keeper(*loop, line, store, [] {}));
  loop->run();
  _exit(0);
}

}  // namespace

SandboxHost::SandboxHost(LayerMounts layer_mounts) {
  auto pair = linux::create_socket_pair(SOCK_SEQPACKET);
  supervisor_ = fork();
  if (supervisor_ == 0) keep_descriptors(pair->second.get());
  line_ = std::move(pair->first);
  keeper_ = std::make_unique<roles::Keeper>(line_.get());
  const std::string state = scratch_.make_directory("spawner");
  if (unshare(CLONE_NEWNS | CLONE_NEWNET) != 0 || !linux::make_mounts_private() ||
      !templates::ensure_host_layer(scratch_.path()) || chdir(state.c_str()) != 0)
    return;
  auto made = Sandboxes::create(*keeper_, Privileges::kHostRoot, layer_mounts);
  if (!made) {
    std::fprintf(stderr, "cannot make sandboxes: %s\n", made.error().describe().c_str());
    return;
  }
  sandboxes_ = std::make_unique<Sandboxes>(std::move(*made));
}

SandboxHost::~SandboxHost() {
  if (sandboxes_)
    for (const std::uint64_t key : sandboxes_->keys_after(0, SIZE_MAX)) destroy(key);
  sandboxes_.reset();
  kill(supervisor_, SIGKILL);
  waitpid(supervisor_, nullptr, 0);
}

Request SandboxHost::request(RequestKind kind, std::uint64_t key) {
  Request request{.kind = kind, .id = 1, .sandbox = key};
  request.create.template_layer_count = 1;
  request.create.limits = {.memory_bytes = 256 << 20,
                           .swap_bytes = 0,
                           .pids = 64,
                           .cpu_percent = 100,
                           .disk_bytes = 128 << 20,
                           .disk_inodes = 32'768};
  return request;
}

std::unique_ptr<cell::CellClient> SandboxHost::create(std::uint64_t key, std::uint32_t flags) {
  Request wanted = request(RequestKind::kCreate, key);
  wanted.create.flags = flags;
  return create(wanted);
}

std::unique_ptr<cell::CellClient> SandboxHost::create(const Request& request) {
  const auto connection = sandboxes_->create_sandbox(request);
  if (!connection) {
    std::fprintf(stderr, "cannot create: %s: %s\n", name_of(connection.error().step),
                 strerror(connection.error().os_error));
    return nullptr;
  }
  auto cell = std::make_unique<cell::CellClient>(fmt::format("cells/{:016x}", request.sandbox));
  if (!cell->is_connected() ||
      cell->claim("user", "sandbox", {}).header.status != cell::Status::kDone)
    return nullptr;
  return cell;
}

Outcome<> SandboxHost::switch_view(std::uint64_t key, std::uint32_t upper,
                                   std::vector<std::uint32_t> layers, bool must_seal) {
  Request wanted = request(RequestKind::kSwitchView, key);
  wanted.view.upper = upper;
  wanted.view.must_seal = must_seal ? 1 : 0;
  for (const std::uint32_t number : layers)
    wanted.view.layers[wanted.view.layer_count++] = {.sandbox = key, .number = number};
  return sandboxes_->switch_view(wanted);
}

void SandboxHost::destroy(std::uint64_t key) {
  auto condemned = sandboxes_->condemn(key);
  if (!condemned) return;
  pollfd ended{.fd = condemned->cell.get(), .events = POLLIN, .revents = 0};
  poll(&ended, 1, 20'000);
  sandboxes_->bury(std::move(*condemned));
}

std::string shell(cell::CellClient& cell, const std::string& line, const std::string& user) {
  static int number = 0;
  cell::JobOptions options;
  options.argv = {"/bin/sh", "-c", line};
  options.user = user;
  const cell::Outcome ended = cell.run(fmt::format("job-{}", ++number), options);
  if (ended.status != cell::Status::kDone)
    return fmt::format("[status {} step {} errno {}]", static_cast<int>(ended.status),
                       static_cast<int>(ended.step), ended.os_error);
  return ended.output + ended.error;
}

}  // namespace pons::spawner
