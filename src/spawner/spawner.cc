#include "pons/spawner/spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <list>

#include "background.h"
#include "disk_image.h"
#include "layer_tree.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/linux/mount.h"
#include "pons/linux/namespace.h"
#include "pons/linux/process.h"
#include "pons/linux/signals.h"
#include "pons/linux/unix_socket.h"
#include "pons/roles/attempts.h"
#include "pons/roles/channel.h"
#include "pons/roles/confinement.h"
#include "pons/roles/keeper.h"
#include "pons/spawner/protocol.h"
#include "pons/templates/host_layer.h"
#include "pons/templates/layer_store.h"
#include "pons/templates/trust_layer.h"
#include "sandboxes.h"

namespace pons::spawner {

namespace {

using linux::UniqueFd;

// The layers of a request, topmost first: those that sandboxes wrote, then the template's.
Result<std::vector<UniqueFd>> open_stack(const Sandbox& sandbox, const Request& request,
                                         const std::string& layer_directory) {
  std::vector<UniqueFd> opened;
  for (const OwnLayer& layer : std::span(request.view.layers).first(request.view.layer_count)) {
    const Store* store = layer.sandbox == request.sandbox ? sandbox.store.get() : nullptr;
    for (const Borrowed& lender : sandbox.borrowed)
      if (lender.sandbox == layer.sandbox) store = lender.store.get();
    if (store == nullptr) return os_error("open layer", "of another sandbox", ENOENT);
    opened.push_back(TRY(store->open_layer(layer.number)));
  }
  const Create& create = request.create;
  for (const Digest& digest : std::span(create.template_layers).first(create.template_layer_count))
    opened.push_back(TRY(
        linux::open_file(template_layer_path(digest, layer_directory), O_RDONLY | O_DIRECTORY)));
  return opened;
}

// A new layer of a sandbox, made by `fill`; nothing is left of one that fails.
Result<void> fill_layer(const Store& store, std::uint32_t number, std::uint32_t owner,
                        const std::function<Result<void>(int layer)>& fill) {
  TRY_VOID(store.add_layer(number, owner));
  const UniqueFd layer = TRY(store.open_layer(number));
  auto filled = fill(layer.get());
  if (filled) return {};
  const std::string aside = TRY(store.discard_layer(number));
  (void)remove_tree(store.fd(), aside);
  return filled.error();
}

class Spawner {
 public:
  Spawner(const roles::RoleStart& start, Sandboxes sandboxes, int channel)
      : profile_(roles::profile_of(start.role)),
        context_{start.confinement.state_dir, start.confinement.supervisor},
        attempts_(roles::attempts_for(profile_)),
        sandboxes_(std::move(sandboxes)),
        channel_(channel) {}

  // Descriptors that become readable when something the spawner waits for has ended.
  void add_waits(std::vector<pollfd>& waits) const {
    for (const Dying& dying : dying_)
      waits.push_back({.fd = dying.sandbox.cell.get(), .events = POLLIN, .revents = 0});
    for (const Working& working : working_)
      waits.push_back({.fd = working.work.pidfd(), .events = POLLIN, .revents = 0});
  }
  void finish_what_ended();
  void handle(const Request& request);
  void say_where_it_begins(std::uint64_t first_request = 0);
  void remove_staged_layers();
  bool use_quiet_moment() { return sandboxes_.prepare_one(); }
  void end_all();

 private:
  struct Dying {
    Sandbox sandbox;
    std::vector<std::uint64_t> requests;
  };
  struct Working {
    Background work;
    std::uint64_t request = kNoticeId;  // which nobody waits for
    Step step = Step::kNone;
    std::uint64_t sandbox = 0;          // for whom, and which layer it makes
    std::uint32_t layer = 0;            // 0: none
    std::string image = {};             // an empty file system that it makes
    std::vector<Request> creates = {};  // which wait for that
  };

  void answer(std::uint64_t id, const Outcome<>& outcome);
  void answer(std::uint64_t id, Outcome<UniqueFd> outcome);
  void send(const Reply& reply, std::span<const int> descriptors = {});
  void identify(const Request& request);
  void attempt(const Request& request);
  void destroy(const Request& request);
  void drop_layers(const Request& request);
  void merge(const Request& request);
  void copy_own_layer(const Request& request);
  void snapshot(const Request& request);
  void usage(const Request& request);
  void list(const Request& request);
  void find_view(const Request& request);
  void thaw(const Request& request);
  void open_network(const Request& request);
  void start_work(const Request& request, Step step,
                  const std::function<Result<void>(int results)>& work);
  void make_layer(const Request& request, const std::function<Result<void>()>& work);
  void delete_layer(std::uint64_t sandbox, std::uint32_t number);
  void create(const Request& request);
  void finish(Working working);
  void forget_work_for(std::uint64_t sandbox);

  const roles::Profile& profile_;
  roles::SelfTestContext context_;
  std::vector<const roles::Attempt*> attempts_;
  Sandboxes sandboxes_;
  int channel_;
  bool has_begun_ = false;
  std::list<Dying> dying_;
  std::list<Working> working_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

void Spawner::send(const Reply& reply, std::span<const int> descriptors) {
  if (auto sent = linux::send_message(channel_, bytes_of(reply), descriptors); !sent)
    LOG_WARN("a reply was lost: the warden does not read", {"error", sent.error()});
}

void Spawner::answer(std::uint64_t id, const Outcome<>& outcome) {
  Reply reply{.id = id};
  if (!outcome) {
    reply.status = Status::kFailed;
    reply.step = outcome.error().step;
    reply.os_error = outcome.error().os_error;
  }
  send(reply);
}

void Spawner::answer(std::uint64_t id, Outcome<UniqueFd> outcome) {
  if (!outcome) return answer(id, Outcome<>(std::unexpected(outcome.error())));
  const int descriptor = outcome->get();
  send({.id = id}, {&descriptor, 1});
}

void Spawner::say_where_it_begins(std::uint64_t first_request) {
  send({.id = kNoticeId, .values = {first_request}});
}

void Spawner::handle(const Request& request) {
  if (!has_begun_) say_where_it_begins(request.id);
  has_begun_ = true;
  const bool needs_sandbox = request.kind > RequestKind::kCreate &&
                             request.kind != RequestKind::kList &&
                             request.kind != RequestKind::kDestroy;
  if (needs_sandbox && sandboxes_.find(request.sandbox) == nullptr) {
    send({.status = Status::kNoSuchSandbox, .id = request.id});
    return;
  }
  switch (request.kind) {
    case RequestKind::kIdentify:
      return identify(request);
    case RequestKind::kAttempt:
      return attempt(request);
    case RequestKind::kCreate:
      return create(request);
    case RequestKind::kConnect:
      return answer(request.id, sandboxes_.connect(request.sandbox));
    case RequestKind::kDestroy:
      return destroy(request);
    case RequestKind::kSwitchView:
      return answer(request.id, sandboxes_.switch_view(request));
    case RequestKind::kDropLayers:
      return drop_layers(request);
    case RequestKind::kMergeLayers:
      return merge(request);
    case RequestKind::kSnapshot:
      return snapshot(request);
    case RequestKind::kFreeze:
      return answer(request.id, sandboxes_.freeze(request.sandbox));
    case RequestKind::kThaw:
      return thaw(request);
    case RequestKind::kSetLimits:
      return answer(request.id, sandboxes_.set_limits(request));
    case RequestKind::kUsage:
      return usage(request);
    case RequestKind::kDial:
      return answer(request.id,
                    sandboxes_.dial(request.sandbox, static_cast<std::uint16_t>(request.argument)));
    case RequestKind::kList:
      return list(request);
    case RequestKind::kOpenNetwork:
      return open_network(request);
    case RequestKind::kCopyLayer:
      return copy_own_layer(request);
    case RequestKind::kFindView:
      return find_view(request);
  }
}

void Spawner::identify(const Request& request) {
  const auto uptime = std::chrono::steady_clock::now() - started_;
  Reply reply{.id = request.id};
  reply.values[0] = static_cast<std::uint64_t>(getpid());
  reply.values[1] = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count());
  reply.values[2] = attempts_.size();
  const NamespacesReady ready = sandboxes_.namespaces_ready();
  reply.values[3] = ready.user;
  reply.values[4] = ready.net;
  reply.values[5] = ready.mount;
  send(reply);
}

void Spawner::attempt(const Request& request) {
  Reply reply{.id = request.id};
  if (request.argument >= attempts_.size()) {
    reply.status = Status::kBadRequest;
  } else {
    reply.os_error = attempts_[request.argument]->attempt(profile_, context_);
  }
  send(reply);
}

void Spawner::usage(const Request& request) {
  Reply reply{.id = request.id};
  if (auto read = sandboxes_.usage(request.sandbox, reply.values); !read)
    return answer(request.id, read);
  send(reply);
}

void Spawner::list(const Request& request) {
  Reply reply{.id = request.id};
  std::size_t count = 0;
  for (const std::uint64_t key : sandboxes_.keys_after(request.argument, 8))
    reply.values[count++] = key;
  send(reply);
}

void Spawner::thaw(const Request& request) {
  const auto thawed = sandboxes_.thaw(request.sandbox);
  if (!thawed) return answer(request.id, Outcome<>(std::unexpected(thawed.error())));
  send({.id = request.id, .values = {*thawed ? 1ULL : 0ULL}});
}

void Spawner::find_view(const Request& request) {
  const auto upper = sandboxes_.find_upper(request.sandbox);
  if (!upper) return answer(request.id, Outcome<>(std::unexpected(upper.error())));
  send({.id = request.id, .values = {*upper}});
}

void Spawner::open_network(const Request& request) {
  const auto sockets = sandboxes_.open_network(request.sandbox);
  if (!sockets) return answer(request.id, Outcome<>(std::unexpected(sockets.error())));
  std::vector<int> descriptors;
  for (const UniqueFd& socket : *sockets) descriptors.push_back(socket.get());
  send({.id = request.id}, descriptors);
}

// The first disk of a size waits for an empty file system, and nobody else waits for that disk.
void Spawner::create(const Request& request) {
  const bool makes_disk =
      (request.create.flags & kDiskUpper) != 0 && sandboxes_.find(request.sandbox) == nullptr;
  const auto missing = makes_disk ? find_missing_image(request.create.limits) : std::nullopt;
  if (!missing) return answer(request.id, sandboxes_.create_sandbox(request));
  for (Working& working : working_)
    if (working.image == *missing) {
      working.creates.push_back(request);
      return;
    }
  const SandboxLimits& limits = request.create.limits;
  auto started = Background::start([&](int) { return make_empty_image(limits); });
  if (!started) return answer(request.id, Outcome<>(failed(Step::kStore, started.error())));
  working_.push_back(
      {.work = std::move(*started), .step = Step::kStore, .image = *missing, .creates = {request}});
}

// Of a sandbox that ends: what is being done for it would keep its control group.
void Spawner::forget_work_for(std::uint64_t sandbox) {
  for (Working& working : working_) {
    if (working.sandbox == sandbox) working.work.kill();
    std::erase_if(working.creates, [&](const Request& request) {
      if (request.sandbox != sandbox) return false;
      answer(request.id, Outcome<>(std::unexpected(Failure{working.step, ECANCELED})));
      return true;
    });
  }
}

void Spawner::destroy(const Request& request) {
  forget_work_for(request.sandbox);
  if (auto sandbox = sandboxes_.condemn(request.sandbox); sandbox) {
    dying_.push_back({std::move(*sandbox), {request.id}});
    return;
  }
  for (Dying& dying : dying_)
    if (dying.sandbox.key == request.sandbox) {
      dying.requests.push_back(request.id);
      return;
    }
  send({.id = request.id});
}

void Spawner::start_work(const Request& request, Step step,
                         const std::function<Result<void>(int results)>& work) {
  auto started = Background::start(work);
  if (!started) return answer(request.id, Outcome<>(failed(step, started.error())));
  working_.push_back({.work = std::move(*started), .request = request.id, .step = step});
}

// In the memory of the sandbox, which has a limit.
void Spawner::make_layer(const Request& request, const std::function<Result<void>()>& work) {
  auto started =
      Background::start([&](int) { return work(); }, sandboxes_.find_cgroup(request.sandbox));
  if (!started) return answer(request.id, Outcome<>(failed(Step::kMerge, started.error())));
  working_.push_back({.work = std::move(*started),
                      .request = request.id,
                      .step = Step::kMerge,
                      .sandbox = request.sandbox,
                      .layer = request.view.upper});
}

void Spawner::delete_layer(std::uint64_t sandbox, std::uint32_t number) {
  const auto aside = sandboxes_.discard_layer(sandbox, number);
  if (!aside) return;
  const int store = sandboxes_.find(sandbox)->store->fd();
  auto started = Background::start([&](int) { return remove_tree(store, *aside); });
  if (started) working_.push_back({.work = std::move(*started), .step = Step::kDelete});
}

// Which a build or a snapshot that was killed has left.
void Spawner::remove_staged_layers() {
  auto started = Background::start([&](int) -> Result<void> {
    return TRY(templates::LayerStore::open(context_.state_dir)).remove_leftovers();
  });
  if (started) working_.push_back({.work = std::move(*started), .step = Step::kDelete});
}

void Spawner::drop_layers(const Request& request) {
  const auto names = sandboxes_.discard_layers(request);
  if (!names) return answer(request.id, Outcome<>(std::unexpected(names.error())));
  const int store = sandboxes_.find(request.sandbox)->store->fd();
  start_work(request, Step::kDelete, [&](int) -> Result<void> {
    for (const std::string& name : *names) TRY_VOID(remove_tree(store, name));
    return {};
  });
}

void Spawner::merge(const Request& request) {
  const Sandbox& sandbox = *sandboxes_.find(request.sandbox);
  const Privileges privileges = sandboxes_.privileges();
  const std::uint32_t owner = owner_of(privileges, sandbox.slot);
  make_layer(request, [&]() -> Result<void> {
    const auto opened = TRY(open_stack(sandbox, request, sandboxes_.layer_directory()));
    const std::size_t count = std::min(request.argument, std::uint64_t{opened.size()});
    std::vector<int> layers, below;
    for (std::size_t i = 0; i < opened.size(); ++i)
      (i < count ? layers : below).push_back(opened[i].get());
    if (layers.empty()) return os_error("merge layers", "none", EINVAL);
    return fill_layer(*sandbox.store, request.view.upper, owner,
                      [&](int merged) { return merge_layers(layers, below, merged, privileges); });
  });
}

void Spawner::copy_own_layer(const Request& request) {
  const Sandbox& sandbox = *sandboxes_.find(request.sandbox);
  const Privileges privileges = sandboxes_.privileges();
  const std::uint32_t owner = owner_of(privileges, sandbox.slot);
  make_layer(request, [&]() -> Result<void> {
    const UniqueFd from =
        TRY(sandbox.store->open_layer(static_cast<std::uint32_t>(request.argument)));
    return fill_layer(*sandbox.store, request.view.upper, owner, [&](int copy) {
      return copy_layer(from.get(), copy, owner, owner, privileges);
    });
  });
}

void Spawner::snapshot(const Request& request) {
  const Sandbox& sandbox = *sandboxes_.find(request.sandbox);
  start_work(request, Step::kCopy, [&](int results) -> Result<void> {
    const auto layers = TRY(templates::LayerStore::open(context_.state_dir));
    const auto lease = TRY(layers.lease());
    for (const OwnLayer& layer : std::span(request.view.layers).first(request.view.layer_count)) {
      const Store* store = sandbox.store.get();
      std::uint32_t slot = sandbox.slot;
      for (const Borrowed& lender : sandbox.borrowed)
        if (lender.sandbox == layer.sandbox) {
          store = lender.store.get();
          slot = lender.slot;
        }
      const UniqueFd from = TRY(store->open_layer(layer.number));
      auto staged = TRY(layers.stage(lease));
      const UniqueFd to = TRY(linux::open_file(staged.get() + "/fs", O_RDONLY | O_DIRECTORY));
      const Privileges privileges = sandboxes_.privileges();
      TRY_VOID(copy_layer(from.get(), to.get(), owner_of(privileges, slot), 0, privileges));
      const auto published = TRY(layers.publish(std::move(staged), "snapshot"));
      TRY_VOID(linux::write_all(results, published.digest));
    }
    return {};
  });
}

void Spawner::finish_what_ended() {
  const auto ended = [](int pidfd) {
    pollfd one{.fd = pidfd, .events = POLLIN, .revents = 0};
    return poll(&one, 1, 0) > 0;
  };
  for (auto dying = dying_.begin(); dying != dying_.end();) {
    if (!ended(dying->sandbox.cell.get())) {
      ++dying;
      continue;
    }
    const auto requests = std::move(dying->requests);
    sandboxes_.bury(std::move(dying->sandbox));
    dying = dying_.erase(dying);
    for (const std::uint64_t id : requests) send({.id = id});
  }
  for (auto working = working_.begin(); working != working_.end();) {
    if (!ended(working->work.pidfd())) {
      ++working;
      continue;
    }
    Working done = std::move(*working);
    working = working_.erase(working);
    finish(std::move(done));
  }
}

void Spawner::finish(Working working) {
  const auto outcome = working.work.collect();
  for (const Request& request : working.creates) {
    if (outcome.os_error == 0)
      create(request);
    else
      answer(request.id, Outcome<>(std::unexpected(Failure{working.step, outcome.os_error})));
  }
  if (outcome.killed && working.layer != 0) delete_layer(working.sandbox, working.layer);
  if (working.request == kNoticeId) return;
  Reply reply{.id = working.request};
  if (outcome.os_error != 0) {
    reply.status = Status::kFailed;
    reply.step = working.step;
    reply.os_error = outcome.os_error;
  } else if (working.step == Step::kCopy) {
    const std::size_t count = std::min(outcome.results.size() / 64, reply.digests.size());
    reply.values[0] = count;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t byte = 0; byte < 32; ++byte)
        reply.digests[i].bytes[byte] = static_cast<std::uint8_t>(
            parse_hex(outcome.results.substr(i * 64 + byte * 2, 2)).value_or(0));
  }
  send(reply);
}

// `pons down` ends every sandbox; a spawner that is killed leaves them to the next one.
void Spawner::end_all() {
  for (const std::uint64_t key : sandboxes_.keys_after(0, SIZE_MAX))
    dying_.push_back({std::move(*sandboxes_.condemn(key)), {}});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!dying_.empty() && std::chrono::steady_clock::now() < deadline) {
    std::vector<pollfd> waits;
    add_waits(waits);
    poll(waits.data(), waits.size(), 100);
    finish_what_ended();
  }
  sandboxes_.finish_burials();
}

// Requests that wait, a bounded number at a time: between them a signal is seen. False when the
// channel is over.
bool answer_waiting(Spawner& spawner, int channel) {
  constexpr int kRequestsPerTurn = 16;
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    auto message = roles::receive_from_role(channel, sizeof(Request), 0);
    if (!message && message.error().code == ErrorCode::kUnavailable) return false;
    if (!message || (*message && !parse_request((*message)->bytes))) {
      LOG_WARN("a malformed request was dropped");
      continue;
    }
    if (!*message) return true;
    spawner.handle(*parse_request((*message)->bytes));
  }
  return true;
}

constexpr int kQuietMs = 10;

Result<void> serve(roles::RoleStart& start) {
  auto signals = TRY(linux::SignalFd::create({SIGTERM, SIGINT}));
  linux::ignore_sigpipe();
  TRY_VOID(linux::raise_descriptor_limit());
  // Reads the host's /etc, which is out of sight afterwards.
  TRY_VOID(templates::ensure_host_layer(start.confinement.state_dir));
  TRY_VOID(templates::ensure_trust_layer(start.confinement.state_dir,
                                         start.confinement.state_dir + "/egress/trust"));
  const Privileges privileges = TRY(take_privileges());
  start.confinement.own_user_namespace = privileges == Privileges::kOwnNamespace;
  const auto steps = TRY(roles::confine(roles::profile_of(start.role), start.confinement));
  for (const auto& step : steps)
    if (!step.note.empty())
      LOG_WARN("confinement is weaker than it could be", {"step", step.name}, {"why", step.note});
  // Whatever its confinement: nothing mounted from now on is ever seen on the host.
  TRY_VOID(linux::unshare_namespaces({linux::NamespaceKind::kMount}));
  TRY_VOID(linux::make_mounts_private());
  const UniqueFd channel = start.take("from:warden");
  const UniqueFd line = start.take("keeper");
  roles::Keeper keeper(line.get());
  Spawner spawner(start, TRY(Sandboxes::create(keeper, privileges)), channel.get());
  spawner.say_where_it_begins();
  spawner.remove_staged_layers();
  TRY_VOID(keeper.say_ready());
  for (bool quiet = false;;) {
    std::vector<pollfd> waits = {{.fd = signals.fd(), .events = POLLIN, .revents = 0},
                                 {.fd = channel.get(), .events = POLLIN, .revents = 0}};
    spawner.add_waits(waits);
    // Namespaces for later are made only when nobody has wanted anything for a while: the first
    // command of a new sandbox runs now.
    const int ready = poll(waits.data(), waits.size(), quiet ? -1 : kQuietMs);
    if (ready < 0 && errno != EINTR) return os_error("wait for requests");
    if (signals.take()) break;
    if (ready == 0) {
      quiet = !spawner.use_quiet_moment();
      continue;
    }
    quiet = false;
    spawner.finish_what_ended();
    if (!answer_waiting(spawner, channel.get())) break;
  }
  spawner.end_all();
  return {};
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
