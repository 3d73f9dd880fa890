#include "transactions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "pons/base/log.h"

namespace pons::sandbox {

namespace {

constexpr std::size_t kMergeBeyond = 12;
constexpr std::size_t kCheckpointsMax = 64;
constexpr Duration kSwitchTime = std::chrono::seconds(15);
constexpr Duration kMergeTime = std::chrono::minutes(2);

constexpr Duration kCopyTime = std::chrono::minutes(1);

// kAlone: and nobody runs inside who would be left in the old view.
enum class Seal : std::uint8_t { kNot, kMust, kAlone };

Task<Result<void>> switch_view(Fleet& fleet, Sandbox& sandbox, Layers below, Seal seal,
                               std::string checkpoint = {}) {
  LayerView& view = sandbox.record.view;
  if (below.size() > spawner::kOwnLayersMax)
    co_return make_error(ErrorCode::kLimit, "switch view",
                         fmt::format("the files of this sandbox have {} layers already; commit "
                                     "checkpoints you need no more",
                                     below.size() - 1));
  // On record first: a number is never used twice, and whoever does not hear the answer, or whoever
  // comes after him, knows what to ask.
  const std::uint32_t upper = view.next++;
  view.asked = {.upper = upper, .below = below, .checkpoint = std::move(checkpoint)};
  fleet.save(sandbox);
  auto request = spawner_request(spawner::RequestKind::kSwitchView, sandbox.record.key);
  // The spawner remembers no template: the new view stands on the layers that are named here.
  set_spec(request.create, sandbox.record.spec);
  set_layers(request.view, upper, below);
  request.view.must_seal = seal == Seal::kNot ? 0 : seal == Seal::kMust ? 1 : spawner::kSealAlone;
  // A second process beside the cell may be the shell that waits for its first line, while it does.
  const bool may_wait =
      fleet.loop().now() < sandbox.claimed + std::chrono::milliseconds(cell::kShellKeptMs / 2);
  request.argument = sandbox.shell_used || !may_wait ? 1 : 2;
  auto reply = co_await fleet.spawning().call(request, kSwitchTime);
  if (!reply && reply.error().os_error == EBUSY) {
    view.asked.reset();
    Error error = reply.error();
    error.code = ErrorCode::kConflict;
    error.message =
        "busy_writers: a process has a file open for writing, so nothing was changed; close it or "
        "end the process and try again";
    co_return error;
  }
  if (reply) {
    view.switched();
    co_return {};
  }
  // It may have been done all the same.
  const auto settled = co_await settle_view(fleet, sandbox);
  if (settled && view.upper == upper) co_return {};
  co_return std::move(reply).error();
}

// The lock, of a sandbox that is there and whose view is known.
Task<Result<Lock::Guard>> lock_view(Fleet& fleet, Sandbox& sandbox) {
  CO_TRY(auto guard,
         co_await sandbox.view_lock.take("change files", fleet.loop().now() + kLockTime));
  CO_TRY_VOID(co_await settle_view(fleet, sandbox));
  if (sandbox.gone.is_set())
    co_return make_error(ErrorCode::kNotFound, "change files", "the sandbox ended meanwhile");
  co_return std::move(guard);
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

// Makes one layer of the run, or, where that cannot be, of each half of it: a layer that nothing
// can be merged with must not keep the others apart.
Task<> merge_run(Fleet& fleet, Sandbox& sandbox, Layers run) {
  if (run.size() < 2) co_return;
  LayerView& view = sandbox.record.view;
  const std::uint32_t into = view.next++;
  // The spawner goes on with it when this process is killed: the next one gives nothing this
  // number.
  fleet.save(sandbox);
  auto request = spawner_request(spawner::RequestKind::kMergeLayers, sandbox.record.key);
  // The layers below tell which marks of deleted files still hide something.
  const Layers stack(std::ranges::search(view.layers, run).begin(), view.layers.end());
  set_spec(request.create, sandbox.record.spec);
  set_layers(request.view, into, stack);
  request.argument = run.size();
  const auto merged = co_await fleet.spawning().call(request, kMergeTime);
  if (merged) {
    view.merged(run, into);
    co_return;
  }
  const int why = merged.error().os_error;
  if (why != EOPNOTSUPP && why != ENOSPC && why != EMLINK) {
    LOG_WARN("cannot merge layers", {"sandbox", sandbox.record.id}, {"error", merged.error()});
    co_return;
  }
  const auto middle = run.begin() + static_cast<std::ptrdiff_t>(run.size() / 2);
  co_await merge_run(fleet, sandbox, Layers(run.begin(), middle));
  co_await merge_run(fleet, sandbox, Layers(middle, run.end()));
}

Task<> merge(Fleet& fleet, Sandbox& sandbox) {
  co_await merge_run(fleet, sandbox,
                     sandbox.record.view.mergeable([&](const spawner::OwnLayer& layer) {
                       return fleet.uses_layer(layer, sandbox);
                     }));
}

// Makes few layers out of many and drops what nobody needs, when nobody waits for it.
Task<> tidy(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::size_t layers_max = kMergeBeyond) {
  const auto guard = co_await lock_view(fleet, *sandbox);
  if (!guard) co_return;
  if (sandbox->record.view.layers.size() > layers_max) co_await merge(fleet, *sandbox);
  co_await drop_unneeded(fleet, *sandbox);
  fleet.save(*sandbox);
}

// A layer with what is in the upper now. The sandbox is frozen meanwhile and otherwise left as it
// is: its processes notice nothing, whatever they have open.
Task<Result<Layers>> copy_upper(Fleet& fleet, Sandbox& sandbox) {
  LayerView& view = sandbox.record.view;
  const std::uint32_t into = view.next++;
  auto request = spawner_request(spawner::RequestKind::kCopyLayer, sandbox.record.key);
  request.argument = view.upper;
  set_layers(request.view, into, {});
  // Noted first, as for idleness: a call that comes now waits for the lock, and whatever becomes of
  // this process, the next one to use the sandbox thaws it.
  sandbox.record.auto_frozen = true;
  fleet.save(sandbox);
  auto done = co_await fleet.spawning().call(
      spawner_request(spawner::RequestKind::kFreeze, sandbox.record.key));
  // Without an answer it may be frozen all the same.
  const bool never_froze = !done && done.error().os_error == EOPNOTSUPP;
  if (done) done = co_await fleet.spawning().call(request, kCopyTime);
  const bool runs = never_froze || co_await fleet.spawning().call(spawner_request(
                                       spawner::RequestKind::kThaw, sandbox.record.key));
  sandbox.record.auto_frozen = !runs;
  if (done) view.own.push_back(into);
  fleet.save(sandbox);
  fleet.timers_changed();
  if (!done) co_return std::move(done).error();
  Layers layers{{.sandbox = sandbox.record.key, .number = into}};
  layers.insert(layers.end(), view.layers.begin(), view.layers.end());
  co_return layers;
}

// What cannot be copied, or not now, may still be sealed when nobody writes.
bool may_do_without_copy(const Error& error) {
  constexpr std::array kReasons = {ENOSPC, ENOMEM, EOPNOTSUPP, ENAMETOOLONG,
                                   EFBIG,  ERANGE, ETIMEDOUT};
  return std::ranges::find(kReasons, error.os_error) != kReasons.end();
}

Error no_checkpoint(const char* step, const std::string& name) {
  return make_error(ErrorCode::kNotFound, step, fmt::format("there is no checkpoint \"{}\"", name));
}

}  // namespace

Task<Result<void>> settle_view(Fleet& fleet, Sandbox& sandbox) {
  LayerView& view = sandbox.record.view;
  if (!view.asked) co_return {};
  CO_TRY(const auto found, co_await fleet.spawning().call(spawner_request(
                               spawner::RequestKind::kFindView, sandbox.record.key)));
  view.settle(static_cast<std::uint32_t>(found.reply.values[0]));
  fleet.save(sandbox);
  co_return {};
}

Task<Result<Layers>> freeze_layers(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                   std::string keep_as, WhenBusy when_busy) {
  CO_TRY(const auto guard, co_await lock_view(fleet, *sandbox));
  // Copying thaws it in the end, and a pause may have been waiting for the lock, too.
  if (sandbox->record.paused)
    co_return make_error(ErrorCode::kConflict, "change files", "it was paused meanwhile");
  LayerView& view = sandbox->record.view;
  if (const auto* existing = keep_as.empty() ? nullptr : view.find(keep_as))
    co_return existing->layers;
  if (view.checkpoints.size() >= kCheckpointsMax)
    co_return make_error(ErrorCode::kLimit, "take checkpoint",
                         fmt::format("there are {} already; commit some", kCheckpointsMax));
  if (view.frozen().size() > spawner::kOwnLayersMax) co_await merge(fleet, *sandbox);
  const auto keep = [&](const Layers& layers) {
    if (!keep_as.empty() && view.find(keep_as) == nullptr)
      view.checkpoints.push_back({std::move(keep_as), layers});
    fleet.save(*sandbox);
    if (view.layers.size() > kMergeBeyond) fleet.spawn(tidy(fleet, sandbox));
    return layers;
  };
  if (when_busy == WhenBusy::kCopy) {
    const auto sealed = co_await switch_view(fleet, *sandbox, view.frozen(), Seal::kAlone, keep_as);
    if (sealed) co_return keep(view.layers);
    if (sealed.error().os_error != EBUSY) co_return sealed.error();
    const auto copied = co_await copy_upper(fleet, *sandbox);
    if (copied) co_return keep(*copied);
    // No room for a copy, or a host that cannot freeze: then as for a checkpoint.
    if (!may_do_without_copy(copied.error())) co_return copied.error();
  }
  CO_TRY_VOID(co_await switch_view(fleet, *sandbox, view.frozen(), Seal::kMust, keep_as));
  co_return keep(view.layers);
}

Task<Result<Layers>> hold_layers(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                 std::string checkpoint, std::string keep_as) {
  CO_TRY(const auto guard, co_await lock_view(fleet, *sandbox));
  const auto* found = sandbox->record.view.find(checkpoint);
  if (found == nullptr) co_return no_checkpoint("hold layers", checkpoint);
  Layers layers = found->layers;
  sandbox->record.view.checkpoints.push_back({std::move(keep_as), layers});
  fleet.save(*sandbox);
  co_return layers;
}

Task<Result<void>> take_checkpoint(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                   std::string name) {
  CO_TRY_VOID(
      co_await freeze_layers(fleet, std::move(sandbox), std::move(name), WhenBusy::kRefuse));
  co_return {};
}

Task<Result<void>> roll_back(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string name) {
  CO_TRY(const auto guard, co_await lock_view(fleet, *sandbox));
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
  if (sandbox->record.view.find(name) == nullptr) co_return no_checkpoint("commit", name);
  sandbox->record.view.forget(name);
  fleet.save(*sandbox);
  // Many transactions follow each other: what they leave is merged by the dozen.
  fleet.spawn(tidy(fleet, sandbox, name.starts_with('\x01') ? kMergeBeyond : 1));
  co_return {};
}

Task<> abandon_transaction(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string job) {
  if (sandbox->record.transactions.erase(job) == 0) co_return;
  sandbox->transaction_over.set();
  (void)co_await commit_checkpoint(fleet, sandbox, "\x01" + job);
}

Task<> end_transaction(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, PendingTransaction pending,
                       JobInfo& info) {
  const bool keep = pending.kind == Transaction::kRollbackOnFailure &&
                    info.outcome == Outcome::kExit && info.code == 0;
  if (!keep) {
    const auto back = co_await roll_back(fleet, sandbox, pending.checkpoint);
    info.rolled_back = back.has_value();
    if (!back) {
      if (!info.note.empty()) info.note += "; ";
      info.note += "the changes are still there: " + back.error().describe();
    }
  }
  // Nobody can name it: one that stayed after a failed rollback would hold its layers for ever.
  const auto forgotten = co_await commit_checkpoint(fleet, sandbox, pending.checkpoint);
  if (!forgotten) LOG_WARN("a checkpoint stays", {"error", forgotten.error()});
}

}  // namespace pons::sandbox
