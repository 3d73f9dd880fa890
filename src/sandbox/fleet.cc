#include "fleet.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cell_request.h"
#include "limit_rules.h"
#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/sandbox/template_name.h"

namespace pons::sandbox {

namespace {

constexpr Duration kCreateTime = std::chrono::seconds(20);
constexpr std::size_t kEndedKept = 256;
// Of its memory, for what its jobs have written.
constexpr std::uint64_t kOutputPart = 16;

Error no_such_sandbox(std::string_view id) {
  return make_error(ErrorCode::kNotFound, "find sandbox", fmt::format("there is no \"{}\"", id));
}

std::uint32_t flags_of(const Weakening& weakening, const Limits& limits) {
  return (weakening.allow_sudo ? spawner::kAllowSudo : 0U) |
         (weakening.allow_nested_user_namespaces ? spawner::kAllowNestedUserNamespaces : 0U) |
         (limits.disk_upper ? spawner::kDiskUpper : 0U);
}

}  // namespace

void fill_in(Limits& limits, const Limits& others) {
  if (limits.memory_bytes == 0) limits.memory_bytes = others.memory_bytes;
  if (limits.cpu_percent == 0) limits.cpu_percent = others.cpu_percent;
  if (limits.pids == 0) limits.pids = others.pids;
}

Result<std::vector<spawner::Digest>> layers_below(const TemplateInfo& info) {
  std::vector<spawner::Digest> layers{spawner::kTrustLayer};
  for (const std::string& layer : info.layers) layers.push_back(TRY(parse_digest(layer)));
  return layers;
}

Result<SandboxSpec> spec_for(const TemplateInfo& info, const Limits& limits) {
  SandboxSpec spec{.template_layers = TRY(layers_below(info)),
                   .flags = flags_of(info.weakening, limits)};
  spec.limits = TRY(resolve_limits(limits));
  return spec;
}

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             SystemClock().wall().time_since_epoch())
      .count();
}

Call::Call(linux::Loop& loop, std::shared_ptr<Sandbox> sandbox)
    : loop_(&loop), sandbox_(std::move(sandbox)) {
  ++sandbox_->calls;
}

Call::~Call() {
  if (sandbox_ == nullptr) return;
  --sandbox_->calls;
  sandbox_->used = loop_->now();
  sandbox_->used_unix_ms = unix_ms();
}

Fleet::Fleet(linux::Loop& loop, spawner::Client& client, NamespacesSettings settings)
    : loop_(loop),
      settings_(std::move(settings)),
      spawning_(loop, client),
      notes_(settings_.state_dir + "/sandboxes"),
      pool_(loop, spawning_, notes_,
            {.memory_bytes = settings_.pool_memory_bytes,
             .bounds = {.warm_min = settings_.warm_min, .warm_max = settings_.warm_max},
             .check_every = settings_.check_every,
             .check_time = settings_.check_time}),
      templates_(settings_.state_dir + "/templates"),
      adopted_(loop),
      timers_changed_(loop),
      tasks_(loop) {}

Task<Result<void>> Fleet::wait_until_adopted() {
  if (closing_)
    co_return make_error(ErrorCode::kUnavailable, "use sandboxes", "Pons is about to stop");
  if (co_await adopted_.wait(loop_.now() + kCreateTime) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kUnavailable, "use sandboxes",
                         "the spawner does not answer yet; try again");
  co_return {};
}

// ---- beginning

void Fleet::fill_in_io(Limits& limits) const {
  if (!limits.disk_upper) return;
  const auto fill = [&](auto field) {
    if (limits.*field == 0) limits.*field = settings_.defaults.*field;
  };
  fill(&Limits::io_read_bytes_per_second);
  fill(&Limits::io_write_bytes_per_second);
  fill(&Limits::io_read_operations_per_second);
  fill(&Limits::io_write_operations_per_second);
}

Result<std::shared_ptr<Sandbox>> Fleet::enlist(const CreateRequest& request,
                                               const TemplateInfo& info,
                                               std::optional<SandboxSpec> spec) {
  if (sandboxes_.size() >= settings_.sandboxes_max)
    return make_error(ErrorCode::kLimit, "create sandbox",
                      fmt::format("there are {} sandboxes already; destroy some, or raise "
                                  "sandbox.sandboxes_max",
                                  sandboxes_.size()));
  if (!spec) spec = TRY(spec_for(info, request.limits));
  if (request.login_shell) spec->flags |= spawner::kLoginShell;
  spec->has_way_out = request.network.wanted();
  SandboxRecord record{.id = request.id,
                       .template_name = request.template_name,
                       .spec = std::move(*spec),
                       .limits = request.limits,
                       .environment = request.environment,
                       .labels = request.labels,
                       .network = request.network,
                       .ephemeral = request.ephemeral,
                       .created_unix_ms = unix_ms()};
  auto sandbox = std::make_shared<Sandbox>(loop_, std::move(record));
  sandbox->used = loop_.now();
  sandbox->used_unix_ms = unix_ms();
  sandboxes_.emplace(request.id, sandbox);
  std::erase_if(ended_, [&](const SandboxInfo& ended) { return ended.id == request.id; });
  return sandbox;
}

Task<Result<SandboxInfo>> Fleet::create(CreateRequest request, std::optional<Layers> below,
                                        std::optional<SandboxSpec> spec) {
  CO_TRY(const auto sandbox, co_await begin(std::move(request), std::move(below), std::move(spec)));
  (void)co_await sandbox->noted.wait(loop_.now() + kCreateTime);
  co_return info_of(*sandbox);
}

Task<Result<SandboxInfo>> Fleet::create_for_job(CreateRequest request) {
  CO_TRY(const auto sandbox, co_await begin(std::move(request), {}, {}));
  co_return info_of(*sandbox);
}

Task<Result<std::shared_ptr<Sandbox>>> Fleet::begin(CreateRequest request,
                                                    std::optional<Layers> below,
                                                    std::optional<SandboxSpec> spec) {
  CO_TRY_VOID(co_await wait_until_adopted());
  CO_TRY_VOID(check_create_request(request));
  if (request.id.empty()) request.id = "sbx-" + random_text(20);
  fill_in(request.limits, settings_.defaults);
  fill_in_io(request.limits);
  std::shared_ptr<Sandbox> sandbox;
  if (const auto found = sandboxes_.find(request.id); found != sandboxes_.end()) {
    sandbox = found->second;
    if (request.must_be_new)
      co_return make_error(ErrorCode::kConflict, "create sandbox",
                           fmt::format("\"{}\" is there already", request.id));
    if (sandbox->record.template_name != request.template_name)
      co_return make_error(ErrorCode::kConflict, "create sandbox",
                           fmt::format("\"{}\" is there already, of another template", request.id));
  } else {
    CO_TRY(TemplateInfo info, templates_.resolve(request.template_name));
    CO_TRY(sandbox, enlist(request, info, std::move(spec)));
    BringUp work{sandbox, request, std::move(info), std::move(below)};
    // Of its own: it goes on when the caller leaves, and is found by the same call made again.
    tasks_.spawn(bring_up(std::move(work)));
  }
  if (co_await sandbox->ready.wait(loop_.now() + kCreateTime) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, "create sandbox", "it takes too long");
  if (sandbox->failure) co_return *sandbox->failure;
  co_return sandbox;
}

Task<> Fleet::bring_up(BringUp work) {
  Sandbox& sandbox = *work.sandbox;
  const TimePoint begun = loop_.now();
  Result<void> done;
  {
    const Pool::ClaimInProgress claiming(pool_);
    done = co_await obtain(work);
    if (done) done = co_await attach_network(work);
    if (done) done = claim(work);
    const bool may_help = !done && done.error().code != ErrorCode::kInvalid;
    if (may_help && sandbox.record.warm) {
      // What was waiting is not well: a new one is.
      take_down(sandbox);
      sandbox.record.warm = false;
      work.below.emplace();
      done = co_await obtain(work);
      if (done) done = co_await attach_network(work);
      if (done) done = claim(work);
    }
  }
  if (done)
    (sandbox.record.warm ? counts_.warm : counts_.cold).observe(loop_.now() - begun);
  else
    counts_.failed.add();
  if (!done) {
    sandbox.failure = done.error();
    take_down(sandbox);
    // Unless it was given up meanwhile and its id is another's.
    const auto entry = sandboxes_.find(sandbox.record.id);
    if (entry != sandboxes_.end() && entry->second == work.sandbox) sandboxes_.erase(entry);
    sandbox.gone.set();
  } else if (sandbox.gone.is_set()) {
    sandbox.failure = no_such_sandbox(sandbox.record.id);
    take_down(sandbox);
  } else {
    // Whoever goes on with it sends its first job now; the cell is at that while this is written.
    sandbox.ready.set();
    co_await loop_.next_round();
    save(sandbox);
    timers_changed_.set();
  }
  sandbox.ready.set();
  sandbox.noted.set();
}

void Fleet::take_down(Sandbox& sandbox) {
  detach_network(sandbox);
  notes_.give_back(std::exchange(sandbox.note, {}));
  if (sandbox.record.key != 0) spawning_.destroy_soon(std::exchange(sandbox.record.key, 0));
}

Task<Result<void>> Fleet::obtain(BringUp& work) {
  Sandbox& sandbox = *work.sandbox;
  SandboxRecord& record = sandbox.record;
  // A disk takes host space from the moment it is made: none waits for somebody to want it.
  if (!work.below && !record.limits.disk_upper) {
    auto entry = pool_.take(record.spec, record.limits.disk_bytes == 0);
    if (entry) {
      record.key = entry->built.key;
      record.warm = true;
      sandbox.note = std::move(entry->note);
      sandbox.cell = std::move(entry->built.cell);
      work.way_out = std::move(entry->built.way_out);
      if (!same_spec(entry->spec, record.spec)) {
        record.spec.limits.disk_bytes = entry->spec.limits.disk_bytes;
        record.spec.limits.disk_inodes = entry->spec.limits.disk_inodes;
        auto request = spawner_request(spawner::RequestKind::kSetLimits, record.key);
        request.create.limits = record.spec.limits;
        CO_TRY_VOID(co_await spawning_.call(request));
      }
    }
  }
  if (record.key == 0) {
    const std::uint64_t key = make_key();
    if (work.below) record.view.layers = *work.below;  // noted first: nobody may drop them now
    CO_TRY(auto built, co_await spawning_.build(record.spec, key, record.view.layers));
    record.key = key;
    sandbox.cell = std::move(built.cell);
    work.way_out = std::move(built.way_out);
  }
  record.view.sandbox = record.key;
  record.view.mounted = record.view.layers;
  co_return {};
}

// Before the claim: a sandbox that is somebody's has its way out, or does not become anybody's.
Task<Result<void>> Fleet::attach_network(BringUp& work) {
  const SandboxRecord& record = work.sandbox->record;
  if (!record.network.wanted()) co_return {};
  if (settings_.network_gate == nullptr)
    co_return make_error(ErrorCode::kUnsupported, "attach network", "nothing carries it here");
  CHECK(work.way_out.has_value());
  auto opened = *std::exchange(work.way_out, {});
  CO_TRY(work.given,
         co_await settings_.network_gate->attach({.key = record.key,
                                                  .id = record.id,
                                                  .network = record.network,
                                                  .listener = std::move(opened.listener),
                                                  .names = std::move(opened.names)}));
  co_return {};
}

void Fleet::detach_network(const Sandbox& sandbox) {
  if (sandbox.record.network.wanted() && sandbox.record.key != 0 &&
      settings_.network_gate != nullptr)
    settings_.network_gate->detach(sandbox.record.key);
}

// Requests reach the cell in their order: whatever is asked of it next, it knows who it is.
Result<void> Fleet::claim(BringUp& work) {
  ClaimWords words{
      .hostname = work.request.hostname.empty() ? work.request.id : work.request.hostname,
      .user = work.info.user,
      .directory = work.info.directory,
      .environment = work.info.environment,
      .output_bytes_max = work.sandbox->record.spec.limits.memory_bytes / kOutputPart};
  // What the caller set himself stays.
  for (const auto* more : {&work.given, &work.request.environment})
    for (const auto& [name, value] : *more) words.environment[name] = value;
  std::string request = TRY(claim_request(words));
  TRY_VOID(work.sandbox->cell->tell(std::move(request)));
  work.sandbox->shell_used = false;
  work.sandbox->claimed = loop_.now();
  return {};
}

// ---- finding

Task<Result<Call>> Fleet::find(std::string id) {
  CO_TRY_VOID(co_await wait_until_adopted());
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) {
    Error error = no_such_sandbox(id);
    if (const auto ended = find_ended(id)) error.message += " any more: " + ended->end_reason;
    co_return error;
  }
  const std::shared_ptr<Sandbox> sandbox = found->second;
  if (co_await sandbox->ready.wait(loop_.now() + kCreateTime) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, "find sandbox", "it is still being created");
  if (sandbox->failure || sandbox->gone.is_set()) co_return no_such_sandbox(id);
  co_return Call(loop_, sandbox);
}

Task<Result<Call>> Fleet::enter(std::string id) {
  CO_TRY(auto call, co_await find(id));
  if (call->record.paused)
    co_return make_error(ErrorCode::kConflict, "use sandbox",
                         fmt::format("\"{}\" is paused; resume it first", id));
  if (call->record.auto_frozen || call->view_lock.held()) CO_TRY_VOID(co_await thaw(call));
  co_return std::move(call);
}

Task<Result<void>> Fleet::thaw(Call& call) {
  // Another call may change the files for a while, but only a frozen sandbox cannot be used.
  if (!call->record.auto_frozen) co_return {};
  CO_TRY(const auto guard,
         co_await call->view_lock.take("thaw sandbox", loop_.now() + std::chrono::seconds(10)));
  if (!call->record.auto_frozen) co_return {};
  CO_TRY_VOID(
      co_await spawning_.call(spawner_request(spawner::RequestKind::kThaw, call->record.key)));
  call->record.auto_frozen = false;
  save(*call);
  timers_changed_.set();
  co_return {};
}

std::shared_ptr<const Call> Fleet::hold(const std::string& id) {
  const auto found = sandboxes_.find(id);
  return found == sandboxes_.end() ? nullptr : std::make_shared<const Call>(loop_, found->second);
}

std::optional<SandboxInfo> Fleet::find_ended(const std::string& id) const {
  const auto found = std::ranges::find(ended_, id, &SandboxInfo::id);
  return found == ended_.end() ? std::nullopt : std::optional(*found);
}

SandboxInfo Fleet::info_of(const Sandbox& sandbox) const {
  const SandboxRecord& record = sandbox.record;
  SandboxInfo info{.id = record.id,
                   .template_name = record.template_name,
                   .state = record.paused ? State::kPaused : State::kRunning,
                   .warm = record.warm,
                   .created_unix_ms = record.created_unix_ms,
                   .used_unix_ms = sandbox.used_unix_ms,
                   .labels = record.labels,
                   .limits = record.limits,
                   .jobs_running = static_cast<std::uint32_t>(sandbox.running.size())};
  if (record.limits.lifetime_max.count() > 0)
    info.ends_unix_ms = record.created_unix_ms + record.limits.lifetime_max.count();
  for (const auto& checkpoint : record.view.checkpoints)
    if (!checkpoint.name.starts_with('\x01')) info.checkpoints.push_back(checkpoint.name);
  return info;
}

std::vector<std::shared_ptr<Sandbox>> Fleet::all() const {
  std::vector<std::shared_ptr<Sandbox>> sandboxes;
  for (const auto& [id, sandbox] : sandboxes_)
    if (sandbox->ready.is_set()) sandboxes.push_back(sandbox);
  return sandboxes;
}

FleetFigures Fleet::figures() const {
  FleetFigures figures{.warm = pool_.ready()};
  for (const auto& [id, sandbox] : sandboxes_) {
    const SandboxRecord& record = sandbox->record;
    ++(record.paused ? figures.paused : record.auto_frozen ? figures.frozen : figures.running);
    figures.jobs += sandbox->running.size();
  }
  return figures;
}

Known Fleet::known() const {
  Known known{.keys = {spawning_.in_hand().begin(), spawning_.in_hand().end()}};
  std::set<std::uint64_t> writers(known.keys);
  for (const std::uint64_t key : pool_.keys()) known.keys.insert(key);
  for (const auto& [id, sandbox] : sandboxes_) {
    const SandboxRecord& record = sandbox->record;
    if (record.key == 0) continue;
    known.keys.insert(record.key);
    if ((record.spec.flags & spawner::kDiskUpper) != 0) writers.insert(record.key);
    // A disk is there for as long as a fork stands on it.
    for (const Layers* layers : {&record.view.layers, &record.view.mounted})
      for (const spawner::OwnLayer& layer : *layers)
        if (layer.sandbox != record.key) writers.insert(layer.sandbox);
    for (const LayerView::Checkpoint& checkpoint : record.view.checkpoints)
      for (const spawner::OwnLayer& layer : checkpoint.layers)
        if (layer.sandbox != record.key) writers.insert(layer.sandbox);
  }
  known.disks_max = writers.size();
  return known;
}

bool Fleet::uses_layer(const spawner::OwnLayer& layer, const Sandbox& except) const {
  return std::ranges::any_of(sandboxes_, [&](const auto& item) {
    return item.second.get() != &except && item.second->record.view.refers_to(layer);
  });
}

bool Fleet::uses_template(std::string_view name) const {
  return std::ranges::any_of(sandboxes_, [&](const auto& item) {
    const auto parts = template_parts(item.second->record.template_name);
    return std::ranges::find(parts, name) != parts.end();
  });
}

std::map<std::string, std::set<std::string>> Fleet::template_layers_in_use() const {
  std::map<std::string, std::set<std::string>> used;
  for (const auto& [id, sandbox] : sandboxes_)
    for (const spawner::Digest& digest : sandbox->record.spec.template_layers)
      for (const std::string_view part : template_parts(sandbox->record.template_name))
        if (digest != spawner::kTrustLayer) used[std::string(part)].insert(hex_of(digest));
  return used;
}

// ---- end

void Fleet::remove(const std::shared_ptr<Sandbox>& sandbox) {
  detach_network(*sandbox);
  sandboxes_.erase(sandbox->record.id);
  notes_.give_back(std::exchange(sandbox->note, {}));
  sandbox->gone.set();
  sandbox->cell = nullptr;
  for (auto& [name, job] : sandbox->jobs) job->finished.set();
}

Task<Result<void>> Fleet::destroy(std::string id) {
  CO_TRY_VOID(co_await wait_until_adopted());
  std::erase_if(ended_, [&](const SandboxInfo& ended) { return ended.id == id; });
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) co_return {};
  const std::shared_ptr<Sandbox> sandbox = found->second;
  sandbox->end_reason = "it was destroyed";
  counts_.ends.at({"destroyed"}).add();
  remove(sandbox);
  // One that is still being built is taken down by whoever builds it.
  if (sandbox->ready.is_set()) co_await spawning_.destroy(sandbox->record.key);
  co_return {};
}

void Fleet::end(std::shared_ptr<Sandbox> sandbox, std::string_view counted_as, std::string reason) {
  if (sandbox->gone.is_set()) return;
  counts_.ends.at({counted_as}).add();
  LOG_WARN("a sandbox ended", {"sandbox", sandbox->record.id}, {"why", reason});
  sandbox->end_reason = std::move(reason);
  SandboxInfo info = info_of(*sandbox);
  info.state = State::kEnded;
  info.jobs_running = 0;
  info.ended_by = counted_as;
  info.end_reason = sandbox->end_reason;
  if (ended_.size() >= kEndedKept) ended_.erase(ended_.begin());
  ended_.push_back(std::move(info));
  remove(sandbox);
  spawning_.destroy_soon(sandbox->record.key);
}

Task<> Fleet::end_all(TimePoint deadline) {
  closing_ = true;
  pool_.stop();
  for (const auto& sandbox : all()) {
    sandbox->end_reason = "Pons stops";
    remove(sandbox);
    spawning_.destroy_soon(sandbox->record.key);
  }
  co_await spawning_.wait_until_destroyed(deadline);
}

}  // namespace pons::sandbox
