#include "pons/sandbox/namespaces.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "fleet.h"
#include "job_stream.h"
#include "limit_rules.h"
#include "pons/base/id.h"
#include "pons/base/log.h"
#include "transactions.h"

namespace pons::sandbox {

namespace {

constexpr Duration kSnapshotTime = std::chrono::minutes(5);
constexpr std::size_t kSnapshotLayersMax = 16;  // digests in one reply

// What waits ready on the layers of a template that changes is nobody's any more.
void drain_pool(Fleet& fleet, const TemplateInfo& changing) {
  if (const auto layers = layers_below(changing)) fleet.pool().drain(*layers);
}

Task<> refresh(Fleet& fleet, std::shared_ptr<Sandbox> sandbox) {
  (void)co_await fleet.list_cell_jobs(std::move(sandbox));
}

std::optional<std::uint64_t> counted(std::uint64_t value) {
  return value == ~0ULL ? std::nullopt : std::optional(value);
}

std::optional<double> percent(std::uint64_t hundredths) {
  return hundredths == ~0ULL ? std::nullopt
                             : std::optional(static_cast<double>(hundredths) / 100.0);
}

Result<void> check_checkpoint_name(std::string_view name) {
  if (!name.empty() && name.size() <= 64 && is_id_text(name)) return {};
  return make_error(ErrorCode::kInvalid, "check name",
                    "a checkpoint's name has 1 to 64 letters, digits, '_' and '-'");
}

}  // namespace

NamespacesProvider::NamespacesProvider(std::unique_ptr<Fleet> fleet) : fleet_(std::move(fleet)) {}
NamespacesProvider::~NamespacesProvider() = default;

Result<std::unique_ptr<NamespacesProvider>> NamespacesProvider::create(
    linux::Loop& loop, spawner::Client& client, NamespacesSettings settings) {
  auto fleet = std::make_unique<Fleet>(loop, client, std::move(settings));
  Fleet& started = *fleet;
  // Jobs whose changes are to be undone or kept are watched again.
  fleet->set_adopted_hook([&started](const std::shared_ptr<Sandbox>& sandbox) {
    for (const auto& [job, pending] : sandbox->record.transactions)
      started.spawn(watch_job(started, sandbox, job));
  });
  TRY_VOID(fleet->start());
  return std::unique_ptr<NamespacesProvider>(new NamespacesProvider(std::move(fleet)));
}

Task<> NamespacesProvider::end_all(TimePoint deadline) {
  return fleet_->end_all(deadline);
}

Task<Result<Known>> NamespacesProvider::known() {
  // Until then those of the former warden are known by their records only.
  CO_TRY_VOID(co_await fleet_->wait_until_adopted());
  co_return fleet_->known();
}

void NamespacesProvider::write_metrics(telemetry::Page& page) const {
  sandbox::write_metrics(page, fleet_->counts(), fleet_->figures());
}

// ---- templates

Task<Result<std::vector<TemplateInfo>>> NamespacesProvider::list_templates() {
  // Before that, nobody knows which layers are in use.
  CO_TRY_VOID(co_await fleet_->wait_until_adopted());
  auto used = fleet_->template_layers_in_use();
  std::vector<TemplateInfo> templates = fleet_->templates().list();
  std::set<std::string> named;  // by some template, as it is now
  for (const TemplateInfo& info : templates) named.insert(info.layers.begin(), info.layers.end());
  for (TemplateInfo& info : templates)
    std::ranges::set_difference(used[info.name], named, std::back_inserter(info.held_layers));
  co_return templates;
}

Task<Result<void>> NamespacesProvider::put_template(TemplateInfo info) {
  // Before that, nobody knows which templates are in use.
  CO_TRY_VOID(co_await fleet_->wait_until_adopted());
  const TemplateInfo* old = fleet_->templates().find(info.name);
  if (old != nullptr && fleet_->uses_template(info.name))
    co_return make_error(ErrorCode::kConflict, "put template",
                         fmt::format("sandboxes of \"{}\" exist; destroy them first", info.name));
  if (old != nullptr) drain_pool(*fleet_, *old);
  co_return fleet_->templates().put(std::move(info));
}

Task<Result<std::vector<std::string>>> NamespacesProvider::remove_template(std::string name) {
  CO_TRY_VOID(co_await fleet_->wait_until_adopted());
  if (fleet_->uses_template(name))
    co_return make_error(ErrorCode::kConflict, "remove template",
                         fmt::format("sandboxes of \"{}\" exist; destroy them first", name));
  if (const TemplateInfo* old = fleet_->templates().find(name)) drain_pool(*fleet_, *old);
  CO_TRY(auto unneeded, fleet_->templates().remove(name));
  for (const auto& [other, layers] : fleet_->template_layers_in_use())
    std::erase_if(unneeded, [&](const std::string& layer) { return layers.contains(layer); });
  co_return unneeded;
}

// ---- lives

Task<Result<SandboxInfo>> NamespacesProvider::create(CreateRequest request) {
  return fleet_->create(std::move(request));
}

Task<Result<SandboxInfo>> NamespacesProvider::create_for_job(CreateRequest request) {
  return fleet_->create_for_job(std::move(request));
}

Task<Result<SandboxInfo>> NamespacesProvider::inspect(std::string id) {
  auto call = co_await fleet_->find(id);
  if (!call) {
    if (auto ended = fleet_->find_ended(id)) co_return std::move(*ended);
    co_return std::move(call).error();
  }
  const bool answers = !(*call)->record.paused && !(*call)->record.auto_frozen;
  if (answers && !(*call)->running.empty()) co_await refresh(*fleet_, call->sandbox());
  if (auto ended = fleet_->find_ended(id)) co_return std::move(*ended);
  co_return fleet_->info_of(**call);
}

Task<Result<std::vector<SandboxInfo>>> NamespacesProvider::list() {
  CO_TRY_VOID(co_await fleet_->wait_until_adopted());
  {
    linux::TaskGroup group(fleet_->loop());
    for (const auto& sandbox : fleet_->all())
      if (!sandbox->running.empty() && !sandbox->record.paused && !sandbox->record.auto_frozen)
        group.spawn(refresh(*fleet_, sandbox));
    // Who does not answer in time is listed as last seen.
    co_await group.wait_until_empty(fleet_->loop().now() + std::chrono::seconds(1));
  }
  std::vector<SandboxInfo> infos;
  for (const auto& sandbox : fleet_->all()) infos.push_back(fleet_->info_of(*sandbox));
  co_return infos;
}

Task<Result<void>> NamespacesProvider::destroy(std::string id) {
  return fleet_->destroy(std::move(id));
}

Task<Result<Metrics>> NamespacesProvider::metrics(std::string id) {
  CO_TRY(const auto call, co_await fleet_->find(std::move(id)));
  CO_TRY(const auto reply, co_await fleet_->spawning().call(
                               spawner_request(spawner::RequestKind::kUsage, call->record.key)));
  const auto& values = reply.reply.values;
  const spawner::SandboxLimits& limits = call->record.spec.limits;
  co_return Metrics{.memory_bytes = counted(values[spawner::kMemoryBytes]),
                    .memory_cache_bytes = counted(values[spawner::kMemoryCacheBytes]),
                    .memory_peak_bytes = counted(values[spawner::kMemoryPeakBytes]),
                    .cpu_usec = counted(values[spawner::kCpuUsec]),
                    .pids = counted(values[spawner::kPids]),
                    .oom_kills = counted(values[spawner::kOomKills]),
                    .disk_bytes = counted(values[spawner::kDiskBytes]),
                    .disk_inodes = counted(values[spawner::kDiskInodes]),
                    .io_read_bytes = counted(values[spawner::kIoReadBytes]),
                    .io_write_bytes = counted(values[spawner::kIoWriteBytes]),
                    .io_read_operations = counted(values[spawner::kIoReadOperations]),
                    .io_write_operations = counted(values[spawner::kIoWriteOperations]),
                    .memory_pressure = percent(values[spawner::kMemoryPressure]),
                    .cpu_pressure = percent(values[spawner::kCpuPressure]),
                    .io_pressure = percent(values[spawner::kIoPressure]),
                    .memory_bytes_max = limits.memory_bytes,
                    .disk_bytes_max = limits.disk_bytes,
                    .pids_max = static_cast<std::uint32_t>(limits.pids),
                    .cpu_percent_max = static_cast<std::uint32_t>(limits.cpu_percent)};
}

Task<Result<SandboxInfo>> NamespacesProvider::set_limits(std::string id, Limits limits) {
  CO_TRY(const auto call, co_await fleet_->enter(std::move(id)));
  CO_TRY(const auto guard,
         co_await call->view_lock.take("set limits", fleet_->loop().now() + kLockTime));
  SandboxRecord& record = call->record;
  if (limits.disk_upper != record.limits.disk_upper)
    co_return make_error(ErrorCode::kInvalid, "set limits",
                         "disk_upper is settled when a sandbox is created");
  fleet_->fill_in_io(limits);
  CO_TRY(auto wanted, resolve_limits(limits));
  CO_TRY_VOID(settle_disk(limits, record.spec.limits, wanted));
  auto request = spawner_request(spawner::RequestKind::kSetLimits, record.key);
  request.create.limits = wanted;
  const auto set = co_await fleet_->spawning().call(request);
  if (!set) co_return limits.disk_upper ? explain_disk(set.error()) : set.error();
  record.limits = limits;
  record.spec.limits = wanted;
  fleet_->save(*call);
  fleet_->timers_changed();
  co_return fleet_->info_of(*call);
}

Task<Result<SandboxInfo>> NamespacesProvider::set_lifetime(std::string id, Milliseconds from_now,
                                                           bool pause_at_end) {
  constexpr Milliseconds kLongest = std::chrono::hours(24 * 365);
  if (from_now.count() < 0 || from_now > kLongest)
    co_return make_error(ErrorCode::kInvalid, "set lifetime", "from 0 ms to a year");
  CO_TRY(const auto call, co_await fleet_->find(std::move(id)));
  SandboxRecord& record = call->record;
  // Counted from its beginning; at least 1, because 0 means no end.
  const Milliseconds age{std::max<std::int64_t>(0, unix_ms() - record.created_unix_ms)};
  record.limits.lifetime_max = from_now.count() == 0 ? Milliseconds(0) : age + from_now;
  record.limits.pause_at_end = pause_at_end;
  fleet_->save(*call);
  fleet_->timers_changed();
  co_return fleet_->info_of(*call);
}

Task<Result<SandboxInfo>> NamespacesProvider::set_label(std::string id, std::string name,
                                                        std::string value) {
  CO_TRY(const auto call, co_await fleet_->find(std::move(id)));
  auto labels = call->record.labels;
  if (value.empty())
    labels.erase(name);
  else
    labels[std::move(name)] = std::move(value);
  CO_TRY_VOID(check_labels(labels));
  call->record.labels = std::move(labels);
  fleet_->save(*call);
  co_return fleet_->info_of(*call);
}

Task<Result<SandboxInfo>> NamespacesProvider::pause(std::string id) {
  CO_TRY(const auto call, co_await fleet_->find(std::move(id)));
  CO_TRY_VOID(co_await fleet_->pause(call.sandbox()));
  co_return fleet_->info_of(*call);
}

Task<Result<SandboxInfo>> NamespacesProvider::resume(std::string id) {
  CO_TRY(const auto call, co_await fleet_->find(std::move(id)));
  CO_TRY(const auto guard,
         co_await call->view_lock.take("resume", fleet_->loop().now() + kLockTime));
  if (call->record.paused || call->record.auto_frozen) {
    CO_TRY_VOID(co_await fleet_->spawning().call(
        spawner_request(spawner::RequestKind::kThaw, call->record.key)));
    call->record.paused = false;
    call->record.auto_frozen = false;
    fleet_->save(*call);
    fleet_->timers_changed();
  }
  co_return fleet_->info_of(*call);
}

// ---- transactions

Task<Result<std::string>> NamespacesProvider::checkpoint(std::string id, std::string name) {
  if (name.empty()) name = "cp-" + random_text(12);
  CO_TRY_VOID(check_checkpoint_name(name));
  CO_TRY(const auto call, co_await fleet_->enter(std::move(id)));
  CO_TRY_VOID(co_await take_checkpoint(*fleet_, call.sandbox(), name));
  co_return name;
}

Task<Result<void>> NamespacesProvider::rollback(std::string id, std::string name) {
  CO_TRY_VOID(check_checkpoint_name(name));
  CO_TRY(const auto call, co_await fleet_->enter(std::move(id)));
  co_return co_await roll_back(*fleet_, call.sandbox(), std::move(name));
}

Task<Result<void>> NamespacesProvider::commit(std::string id, std::string name) {
  CO_TRY_VOID(check_checkpoint_name(name));
  CO_TRY(const auto call, co_await fleet_->enter(std::move(id)));
  co_return co_await commit_checkpoint(*fleet_, call.sandbox(), std::move(name));
}

Task<Result<SandboxInfo>> NamespacesProvider::fork(std::string id, CreateRequest request) {
  for (const std::string& name : {request.checkpoint, request.keep_checkpoint})
    if (!name.empty()) CO_TRY_VOID(check_checkpoint_name(name));
  if (!request.checkpoint.empty() && !request.keep_checkpoint.empty())
    co_return make_error(ErrorCode::kInvalid, "fork sandbox",
                         "keep_checkpoint is for a fork of the files as they are now");
  // Made again after a lost answer, it finds what the first one did, whatever the origin does now.
  if (!request.id.empty()) {
    if (const auto made = co_await fleet_->find(request.id)) {
      request.template_name = (*made)->record.template_name;
      co_return co_await fleet_->create(std::move(request));
    }
  }
  CO_TRY(const auto call, co_await fleet_->enter(id));
  request.template_name = call->record.template_name;
  if (!request.network.wanted()) request.network = call->record.network;
  const auto origin = fleet_->templates().resolve(request.template_name);
  if (!origin)
    co_return make_error(ErrorCode::kNotFound, "fork sandbox",
                         fmt::format("its template \"{}\" is gone", request.template_name));
  for (const auto& [name, value] : call->record.environment)
    request.environment.try_emplace(name, value);
  fill_in(request.limits, call->record.limits);
  fleet_->fill_in_io(request.limits);
  CO_TRY(const SandboxSpec fresh, spec_for(*origin, request.limits));
  // Under a name until the new sandbox refers to the layers itself: nobody may drop them meanwhile.
  const std::string keep = request.keep_checkpoint;
  const std::string held = keep.empty() ? "\x01"
                                          "fork-" +
                                              random_text(12)
                                        : keep;
  Result<Layers> layers =
      request.checkpoint.empty()
          ? co_await freeze_layers(*fleet_, call.sandbox(), held, WhenBusy::kCopy)
          : co_await hold_layers(*fleet_, call.sandbox(), request.checkpoint, held);
  if (!layers) co_return layers.error();
  SandboxSpec spec = fresh;
  spec.template_layers = call->record.spec.template_layers;
  auto info = co_await fleet_->create(std::move(request), std::move(*layers), std::move(spec));
  if (!call->gone.is_set() && keep.empty()) {
    const auto let_go = co_await commit_checkpoint(*fleet_, call.sandbox(), held);
    if (!let_go) LOG_WARN("a fork's layers stay", {"error", let_go.error()});
  }
  co_return info;
}

Task<Result<TemplateInfo>> NamespacesProvider::snapshot(std::string id, std::string template_name) {
  CO_TRY_VOID(check_template_name(template_name));
  CO_TRY(const auto call, co_await fleet_->enter(id));
  TemplateInfo info =
      fleet_->templates().resolve(call->record.template_name).value_or(TemplateInfo{});
  const std::string held =
      "\x01"
      "snapshot-" +
      random_text(12);
  CO_TRY(const auto layers, co_await freeze_layers(*fleet_, call.sandbox(), held, WhenBusy::kCopy));
  Result<spawner::SpawnerReply> copied =
      make_error(ErrorCode::kLimit, "take snapshot",
                 fmt::format("the files have more than {} layers; commit checkpoints first",
                             kSnapshotLayersMax));
  if (layers.size() <= kSnapshotLayersMax) {
    auto request = spawner_request(spawner::RequestKind::kSnapshot, call->record.key);
    set_layers(request.view, 0, layers);
    copied = co_await fleet_->spawning().call(request, kSnapshotTime);
  }
  if (!call->gone.is_set()) (void)co_await commit_checkpoint(*fleet_, call.sandbox(), held);
  if (!copied) co_return copied.error();
  if (copied->reply.values[0] != layers.size())
    co_return make_error(ErrorCode::kInternal, "take snapshot", "not all layers were copied");
  info.layers.clear();
  // One that is there twice, like those in which nothing changed, says the same once, on top; the
  // kernel takes none twice.
  const auto put = [&info](std::string layer) {
    if (std::ranges::find(info.layers, layer) == info.layers.end())
      info.layers.push_back(std::move(layer));
  };
  for (std::size_t i = 0; i < layers.size(); ++i) put(hex_of(copied->reply.digests[i]));
  for (const auto& digest : call->record.spec.template_layers)
    if (digest != spawner::kTrustLayer) put(hex_of(digest));
  info.name = template_name;
  info.kind = "snapshot";
  info.source = "snapshot of " + id;
  info.created_unix_ms = unix_ms();
  if (const TemplateInfo* old = fleet_->templates().find(template_name)) {
    if (old->kind != info.kind)
      co_return make_error(ErrorCode::kConflict, "take snapshot",
                           fmt::format("\"{}\" is a template that was built or imported; choose "
                                       "another name",
                                       template_name));
    drain_pool(*fleet_, *old);
  }
  CO_TRY_VOID(fleet_->templates().put(info));
  co_return info;
}

Task<Result<linux::UniqueFd>> NamespacesProvider::dial(std::string id, std::uint16_t port) {
  CO_TRY(const auto call, co_await fleet_->enter(std::move(id)));
  auto request = spawner_request(spawner::RequestKind::kDial, call->record.key);
  request.argument = port;
  CO_TRY(auto reply, co_await fleet_->spawning().call(request));
  if (reply.descriptors.size() != 1)
    co_return make_error(ErrorCode::kInternal, "dial", "no connection came");
  co_return std::move(reply.descriptors.front());
}

std::shared_ptr<const void> NamespacesProvider::hold(const std::string& id) {
  return fleet_->hold(id);
}

}  // namespace pons::sandbox
