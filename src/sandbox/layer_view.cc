#include "layer_view.h"

#include <algorithm>
#include <utility>

namespace pons::sandbox {

namespace {

bool contains(const Layers& layers, const spawner::OwnLayer& layer) {
  return std::ranges::find(layers, layer) != layers.end();
}

void replace_run(Layers& layers, const Layers& run, const spawner::OwnLayer& by) {
  const auto found = std::ranges::search(layers, run);
  if (found.empty()) return;
  const auto at = layers.erase(found.begin(), found.end());
  layers.insert(at, by);
}

}  // namespace

Layers LayerView::frozen() const {
  Layers below{{.sandbox = sandbox, .number = upper}};
  below.insert(below.end(), layers.begin(), layers.end());
  return below;
}

const LayerView::Checkpoint* LayerView::find(std::string_view name) const {
  const auto found = std::ranges::find(checkpoints, name, &Checkpoint::name);
  return found == checkpoints.end() ? nullptr : &*found;
}

void LayerView::switched() {
  Switch done = *std::exchange(asked, {});
  own.push_back(upper);
  upper = done.upper;
  layers = std::move(done.below);
  mounted = layers;
  if (!done.checkpoint.empty() && find(done.checkpoint) == nullptr)
    checkpoints.push_back({std::move(done.checkpoint), layers});
}

void LayerView::settle(std::uint32_t mounted_upper) {
  if (asked && asked->upper == mounted_upper)
    switched();
  else
    asked.reset();
}

void LayerView::forget(std::string_view name) {
  std::erase_if(checkpoints, [&](const Checkpoint& c) { return c.name == name; });
}

bool LayerView::refers_to(const spawner::OwnLayer& layer) const {
  return contains(layers, layer) || contains(mounted, layer) ||
         (asked && contains(asked->below, layer)) ||
         std::ranges::any_of(checkpoints,
                             [&](const Checkpoint& c) { return contains(c.layers, layer); });
}

std::vector<std::uint32_t> LayerView::unneeded(const UsedOutside& is_used_outside) const {
  std::vector<std::uint32_t> numbers;
  for (const std::uint32_t number : own) {
    const spawner::OwnLayer layer{.sandbox = sandbox, .number = number};
    if (!refers_to(layer) && !is_used_outside(layer)) numbers.push_back(number);
  }
  return numbers;
}

Layers LayerView::mergeable(const UsedOutside& is_used_outside) const {
  Layers best, run;
  const auto close_run = [&] {
    if (run.size() > best.size()) best = run;
    run.clear();
  };
  for (const spawner::OwnLayer& layer : layers) {
    // A checkpoint that begins with this layer must not gain what lies above it.
    if (std::ranges::any_of(checkpoints, [&](const Checkpoint& c) {
          return !c.layers.empty() && c.layers.front() == layer;
        }))
      close_run();
    // A checkpoint that left this chain below shares only a part of it.
    const bool forked = std::ranges::any_of(checkpoints, [&](const Checkpoint& c) {
      return contains(c.layers, layer) && std::ranges::search(layers, c.layers).empty();
    });
    if (layer.sandbox != sandbox || forked || is_used_outside(layer)) {
      close_run();
      continue;
    }
    run.push_back(layer);
  }
  close_run();
  return best.size() >= 2 ? best : Layers{};
}

void LayerView::merged(const Layers& run, std::uint32_t into) {
  const spawner::OwnLayer by{.sandbox = sandbox, .number = into};
  replace_run(layers, run, by);
  for (Checkpoint& checkpoint : checkpoints) replace_run(checkpoint.layers, run, by);
  own.push_back(into);
  next = std::max(next, into + 1);
}

}  // namespace pons::sandbox
