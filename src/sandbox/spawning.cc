#include "spawning.h"

#include <algorithm>

#include "limit_rules.h"
#include "pons/base/id.h"
#include "pons/base/log.h"

namespace pons::sandbox {

namespace {

constexpr std::size_t kDestroysAtOnce = 64;
constexpr int kDestroyAttempts = 8;
constexpr std::size_t kSandboxesListedMax = 100'000;

bool same_bytes(const spawner::SandboxLimits& a, const spawner::SandboxLimits& b) {
  return spawner::bytes_of(a) == spawner::bytes_of(b);
}

}  // namespace

bool same_spec(const SandboxSpec& a, const SandboxSpec& b) {
  return a.template_layers == b.template_layers && a.flags == b.flags &&
         a.has_way_out == b.has_way_out && same_bytes(a.limits, b.limits);
}

bool can_become(const SandboxSpec& have, const SandboxSpec& want, bool disk_is_derived) {
  if (have.template_layers != want.template_layers || have.flags != want.flags ||
      have.has_way_out != want.has_way_out)
    return false;
  if (have.limits.swap_bytes != want.limits.swap_bytes) return false;
  if (disk_is_derived)
    return have.limits.disk_bytes <= want.limits.disk_bytes &&
           have.limits.disk_inodes <= want.limits.disk_inodes &&
           2 * have.limits.disk_bytes >= want.limits.disk_bytes;
  return have.limits.disk_bytes == want.limits.disk_bytes &&
         have.limits.disk_inodes == want.limits.disk_inodes;
}

spawner::Request spawner_request(spawner::RequestKind kind, std::uint64_t key) {
  spawner::Request request;
  request.kind = kind;
  request.sandbox = key;
  return request;
}

void set_spec(spawner::Create& create, const SandboxSpec& spec) {
  CHECK(spec.template_layers.size() <= create.template_layers.size());
  create.flags = spec.flags;
  create.template_layer_count = static_cast<std::uint32_t>(spec.template_layers.size());
  std::ranges::copy(spec.template_layers, create.template_layers.begin());
  create.limits = spec.limits;
}

void set_layers(spawner::View& view, std::uint32_t upper, const Layers& layers) {
  CHECK(layers.size() <= spawner::kOwnLayersMax);
  view.upper = upper;
  view.layer_count = static_cast<std::uint32_t>(layers.size());
  std::ranges::copy(layers, view.layers.begin());
}

std::uint64_t make_key() {
  std::uint64_t key = 0;
  while (key == 0) random_bytes(&key, sizeof key);
  return key;
}

Task<Result<spawner::SpawnerReply>> Spawning::call(spawner::Request request, Duration reply_time) {
  return client_.call(request, reply_time);
}

Task<Result<Spawning::Built>> Spawning::build(SandboxSpec spec, std::uint64_t key, Layers below) {
  const InHand held(*this, key);
  auto request = spawner_request(spawner::RequestKind::kCreate, key);
  set_spec(request.create, spec);
  set_layers(request.view, 1, below);
  auto reply = co_await client_.call(request, std::chrono::seconds(10));
  if (!reply || reply->descriptors.size() != 1) {
    // It may stand even so: the answer can be late or lost.
    destroy_soon(key);
    if (!reply && (spec.flags & spawner::kDiskUpper) != 0) co_return explain_disk(reply.error());
    if (!reply) co_return std::move(reply).error();
    co_return make_error(ErrorCode::kInternal, "create sandbox", "no connection came with it");
  }
  auto cell = CellClient::create(loop_, std::move(reply->descriptors.front()));
  if (!cell) {
    destroy_soon(key);
    co_return std::move(cell).error();
  }
  Built built{.key = key, .cell = std::move(*cell)};
  if (!spec.has_way_out) co_return built;
  auto opened = co_await open_way_out(key);
  if (!opened) {
    destroy_soon(key);
    co_return std::move(opened).error();
  }
  built.way_out = *std::move(opened);
  co_return built;
}

// The sandbox's own end of it stands with this; what answers there comes with the claim.
Task<Result<Spawning::WayOut>> Spawning::open_way_out(std::uint64_t key) {
  CO_TRY(auto opened, co_await call(spawner_request(spawner::RequestKind::kOpenNetwork, key)));
  if (opened.descriptors.size() != 2)
    co_return make_error(ErrorCode::kInternal, "open network", "the spawner sent no sockets");
  co_return WayOut{.listener = std::move(opened.descriptors[0]),
                   .names = std::move(opened.descriptors[1])};
}

Task<Result<std::shared_ptr<CellClient>>> Spawning::connect(std::uint64_t key) {
  CO_TRY(auto reply, co_await client_.call(spawner_request(spawner::RequestKind::kConnect, key),
                                           std::chrono::seconds(5)));
  if (reply.descriptors.size() != 1)
    co_return make_error(ErrorCode::kInternal, "connect to cell", "no connection came");
  CO_TRY(auto cell, CellClient::create(loop_, std::move(reply.descriptors.front())));
  co_return std::shared_ptr<CellClient>(std::move(cell));
}

Task<Result<std::vector<std::uint64_t>>> Spawning::list() {
  std::vector<std::uint64_t> keys;
  spawner::Request request = spawner_request(spawner::RequestKind::kList, 0);
  for (;;) {
    CO_TRY(const auto reply, co_await client_.call(request, std::chrono::seconds(5)));
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint64_t key = reply.reply.values[i];
      if (key == 0) co_return keys;
      if (key <= request.argument || keys.size() >= kSandboxesListedMax)
        co_return make_error(ErrorCode::kInternal, "list sandboxes", "the list has no order");
      request.argument = key;
      keys.push_back(key);
    }
  }
}

Task<> Spawning::destroy(std::uint64_t key) {
  const InHand held(*this, key);
  while (destroying_ >= kDestroysAtOnce) {
    destroyed_.reset();
    co_await destroyed_.wait(loop_.now() + std::chrono::seconds(10));
  }
  destroy_soon(key);
}

Task<> Spawning::destroy_now(std::uint64_t key) {
  struct Count {
    Spawning& owner;
    explicit Count(Spawning& o) : owner(o) { ++owner.destroying_; }
    ~Count() {
      --owner.destroying_;
      owner.destroyed_.set();
    }
  } const count(*this);
  const InHand held(*this, key);
  for (int attempt = 0; attempt < kDestroyAttempts; ++attempt) {
    const auto reply = co_await client_.call(spawner_request(spawner::RequestKind::kDestroy, key),
                                             std::chrono::seconds(30));
    if (reply || reply.error().code == ErrorCode::kNotFound) co_return;
    LOG_WARN("cannot take a sandbox down", {"attempt", attempt + 1}, {"error", reply.error()});
    co_await loop_.sleep_for(std::chrono::milliseconds(200) * (1 << attempt));
  }
  LOG_ERROR("a sandbox stays until the warden starts again");
}

Task<> Spawning::wait_until_destroyed(TimePoint deadline) {
  while (destroying_ > 0 && loop_.now() < deadline) {
    destroyed_.reset();
    co_await destroyed_.wait(deadline);
  }
}

}  // namespace pons::sandbox
