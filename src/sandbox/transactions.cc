#include "transactions.h"

#include <fmt/format.h>

#include <algorithm>

#include "pons/base/log.h"

namespace pons::sandbox {

namespace {

constexpr std::size_t kMergeBeyond = 12;
constexpr std::size_t kCheckpointsMax = 64;
constexpr Duration kLockTime = std::chrono::seconds(20);
constexpr Duration kSwitchTime = std::chrono::seconds(15);
constexpr Duration kMergeTime = std::chrono::minutes(2);

enum class Seal : std::uint8_t { kMust, kNot };

Task<Result<void>> switch_view(Fleet& fleet, Sandbox& sandbox, Layers below, Seal seal) {
  LayerView& view = sandbox.record.view;
  if (below.size() > spawner::kOwnLayersMax)
    co_return make_error(ErrorCode::kLimit, "switch view",
                         fmt::format("the files of this sandbox have {} layers already; commit "
                                     "checkpoints you need no more",
                                     below.size() - 1));
  // A number is never used twice, even when the spawner's answer is lost.
  const std::uint32_t upper = view.next++;
  auto request = spawner_request(spawner::RequestKind::kSwitchView, sandbox.record.key);
  // The spawner remembers no template: the new view stands on the layers that are named here.
  set_spec(request.create, sandbox.record.spec);
  set_layers(request.view, upper, below);
  request.view.must_seal = seal == Seal::kMust ? 1 : 0;
  // A second process beside the cell may be the shell that waits for its first line, while it does.
  const bool may_wait =
      fleet.loop().now() < sandbox.claimed + std::chrono::milliseconds(cell::kShellKeptMs / 2);
  request.argument = sandbox.shell_used || !may_wait ? 1 : 2;
  auto reply = co_await fleet.spawning().call(request, kSwitchTime);
  if (!reply && reply.error().os_error == EBUSY) {
    Error error = reply.error();
    error.code = ErrorCode::kConflict;
    error.message =
        "busy_writers: a process has a file open for writing, so nothing was changed; close it or "
        "end the process and try again";
    co_return error;
  }
  if (!reply) co_return std::move(reply).error();
  view.switched(upper, std::move(below));
  co_return {};
}

Task<> drop_unneeded(Fleet& fleet, Sandbox& sandbox) {
  LayerView& view = sandbox.record.view;
  auto numbers = view.unneeded(
      [&](const spawner::OwnLayer& layer) { return fleet.uses_layer(layer, sandbox); });
  if (numbers.empty()) co_return;
  numbers.resize(std::min(numbers.size(), spawner::kOwnLayersMax));
  Layers layers;
  for (const std::uint32_t number : numbers)
    layers.push_back({.sandbox = sandbox.record.key, .number = number});
  auto request = spawner_request(spawner::RequestKind::kDropLayers, sandbox.record.key);
  set_layers(request.view, 0, layers);
  const auto dropped = co_await fleet.spawning().call(request, kSwitchTime);
  // What is left behind goes with the sandbox, or with the next attempt.
  if (!dropped) {
    LOG_DEBUG("layers stay for now", {"error", dropped.error()});
    co_return;
  }
  std::erase_if(view.own,
                [&](std::uint32_t n) { return std::ranges::find(numbers, n) != numbers.end(); });
}

Task<> merge(Fleet& fleet, Sandbox& sandbox) {
  LayerView& view = sandbox.record.view;
  Layers run = view.mergeable(
      [&](const spawner::OwnLayer& layer) { return fleet.uses_layer(layer, sandbox); });
  if (run.empty()) co_return;
  const std::uint32_t into = view.next++;
  auto request = spawner_request(spawner::RequestKind::kMergeLayers, sandbox.record.key);
  // The layers below tell which marks of deleted files still hide something.
  Layers stack(std::ranges::search(view.layers, run).begin(), view.layers.end());
  stack.resize(std::min(stack.size(), spawner::kOwnLayersMax));
  set_spec(request.create, sandbox.record.spec);
  set_layers(request.view, into, stack);
  request.argument = run.size();
  const auto merged = co_await fleet.spawning().call(request, kMergeTime);
  if (merged) {
    view.merged(run, into);
  } else if (merged.error().os_error != EOPNOTSUPP) {
    LOG_WARN("cannot merge layers", {"sandbox", sandbox.record.id}, {"error", merged.error()});
  }
}

// Makes few layers out of many and drops what nobody needs, when nobody waits for it.
Task<> tidy(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::size_t layers_max = kMergeBeyond) {
  const auto guard =
      co_await sandbox->view_lock.take("tidy layers", fleet.loop().now() + kLockTime);
  if (!guard || sandbox->gone.is_set()) co_return;
  if (sandbox->record.view.layers.size() > layers_max) co_await merge(fleet, *sandbox);
  co_await drop_unneeded(fleet, *sandbox);
  fleet.save(*sandbox);
}

Task<Result<Lock::Guard>> lock_view(Fleet& fleet, Sandbox& sandbox) {
  return sandbox.view_lock.take("change files", fleet.loop().now() + kLockTime);
}

Error gone() {
  return make_error(ErrorCode::kNotFound, "change files", "the sandbox ended meanwhile");
}

Error no_checkpoint(const char* step, const std::string& name) {
  return make_error(ErrorCode::kNotFound, step, fmt::format("there is no checkpoint \"{}\"", name));
}

}  // namespace

Task<Result<Layers>> freeze_layers(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                   std::string keep_as) {
  CO_TRY(const auto guard, co_await lock_view(fleet, *sandbox));
  if (sandbox->gone.is_set()) co_return gone();
  LayerView& view = sandbox->record.view;
  if (const auto* existing = keep_as.empty() ? nullptr : view.find(keep_as))
    co_return existing->layers;
  if (view.checkpoints.size() >= kCheckpointsMax)
    co_return make_error(ErrorCode::kLimit, "take checkpoint",
                         fmt::format("there are {} already; commit some", kCheckpointsMax));
  if (view.frozen().size() > spawner::kOwnLayersMax) co_await merge(fleet, *sandbox);
  CO_TRY_VOID(co_await switch_view(fleet, *sandbox, view.frozen(), Seal::kMust));
  if (!keep_as.empty()) view.checkpoints.push_back({std::move(keep_as), view.layers});
  fleet.save(*sandbox);
  if (view.layers.size() > kMergeBeyond) fleet.spawn(tidy(fleet, sandbox));
  co_return view.layers;
}

Task<Result<Layers>> hold_layers(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                 std::string checkpoint, std::string keep_as) {
  CO_TRY(const auto guard, co_await lock_view(fleet, *sandbox));
  if (sandbox->gone.is_set()) co_return gone();
  const auto* found = sandbox->record.view.find(checkpoint);
  if (found == nullptr) co_return no_checkpoint("hold layers", checkpoint);
  Layers layers = found->layers;
  sandbox->record.view.checkpoints.push_back({std::move(keep_as), layers});
  fleet.save(*sandbox);
  co_return layers;
}

Task<Result<void>> take_checkpoint(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                   std::string name) {
  CO_TRY_VOID(co_await freeze_layers(fleet, std::move(sandbox), std::move(name)));
  co_return {};
}

Task<Result<void>> roll_back(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string name) {
  CO_TRY(const auto guard, co_await lock_view(fleet, *sandbox));
  if (sandbox->gone.is_set()) co_return gone();
  const auto* checkpoint = sandbox->record.view.find(name);
  if (checkpoint == nullptr) co_return no_checkpoint("roll back", name);
  CO_TRY_VOID(co_await switch_view(fleet, *sandbox, checkpoint->layers, Seal::kNot));
  fleet.save(*sandbox);
  fleet.spawn(tidy(fleet, sandbox));
  co_return {};
}

Task<Result<void>> commit_checkpoint(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                     std::string name) {
  CO_TRY(const auto guard, co_await lock_view(fleet, *sandbox));
  if (sandbox->gone.is_set()) co_return gone();
  if (sandbox->record.view.find(name) == nullptr) co_return no_checkpoint("commit", name);
  sandbox->record.view.forget(name);
  fleet.save(*sandbox);
  // Many transactions follow each other: what they leave is merged by the dozen.
  fleet.spawn(tidy(fleet, sandbox, name.starts_with('\x01') ? kMergeBeyond : 1));
  co_return {};
}

Task<> end_transaction(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, PendingTransaction pending,
                       JobInfo& info) {
  const bool keep = pending.kind == Transaction::kRollbackOnFailure &&
                    info.outcome == Outcome::kExit && info.code == 0;
  if (!keep) {
    const auto back = co_await roll_back(fleet, sandbox, pending.checkpoint);
    info.rolled_back = back.has_value();
    if (!back) info.note = "the changes are still there: " + back.error().describe();
  }
  // Nobody can name it: one that stayed after a failed rollback would hold its layers for ever.
  const auto forgotten = co_await commit_checkpoint(fleet, sandbox, pending.checkpoint);
  if (!forgotten) LOG_WARN("a checkpoint stays", {"error", forgotten.error()});
}

}  // namespace pons::sandbox
