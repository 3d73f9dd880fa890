#include "view.h"

#include <fcntl.h>

#include <algorithm>

#include <fmt/format.h>

#include "ground.h"

namespace pons::spawner {

namespace {

using linux::DetachedMount;
using linux::MountScope;
using linux::UniqueFd;

// Owners of the template's files become the sandbox's own root and users.
Result<DetachedMount> open_template_layer(const Digest& digest, const ViewSources& sources) {
  auto mount = TRY(DetachedMount::clone_tree(template_layer_path(digest, sources.layer_directory),
                                             MountScope::kOneMount));
  TRY_VOID(
      mount.set_attributes({.read_only = true, .idmap_user_namespace_fd = sources.user_namespace}));
  return mount;
}

Result<UniqueFd> open_own_layer(const OwnLayer& layer, const ViewSources& sources) {
  if (layer.sandbox == sources.sandbox) return sources.store.open_layer(layer.number);
  const auto lender = std::ranges::find(sources.borrowed, layer.sandbox, &Borrowed::sandbox);
  if (lender == sources.borrowed.end()) return os_error("open layer", "of another sandbox", ENOENT);
  return lender->mapped->open_layer(layer.number);
}

std::string path_of(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

}  // namespace

std::string template_layer_path(const Digest& digest, const std::string& layer_directory) {
  if (is_host_layer(digest)) return layer_directory + "/host/fs";
  std::string name;
  for (const std::uint8_t byte : digest.bytes) name += fmt::format("{:02x}", byte);
  return fmt::format("{}/{}/fs", layer_directory, name);
}

Outcome<DetachedMount> build_view(const View& view, const ViewSources& sources, bool allow_setuid) {
  std::vector<UniqueFd> own;
  std::vector<DetachedMount> from_template;
  linux::OverlayLayers layers;
  layers.move_directories = true;
  // A sandbox does not outlive the host, and the end of a view would wait for all of its disk.
  layers.skip_sync = true;
  for (const OwnLayer& layer : std::span(view.layers).first(view.layer_count)) {
    own.push_back(STEP(Step::kStore, open_own_layer(layer, sources)));
    layers.lower.push_back(path_of(own.back().get()));
  }
  for (const Digest& digest : sources.template_layers) {
    from_template.push_back(STEP(Step::kTemplateLayer, open_template_layer(digest, sources)));
    layers.lower.push_back(path_of(from_template.back().fd()));
  }
  STEP_VOID(Step::kStore, sources.store.add_layer(view.upper, first_id_of(sources.slot)));
  const UniqueFd upper = STEP(Step::kStore, sources.store.open_layer(view.upper));
  const UniqueFd work = STEP(Step::kStore, sources.store.open_work(view.upper));
  layers.upper = path_of(upper.get());
  layers.work = path_of(work.get());
  auto mount = STEP(Step::kOverlay, DetachedMount::overlay(layers));
  STEP_VOID(Step::kOverlay, mount.set_attributes({.no_suid = !allow_setuid, .no_dev = true}));
  return mount;
}

Result<Store> map_store(const Store& store, std::uint32_t from_slot, std::uint32_t to_slot) {
  const UniqueFd map = TRY(create_user_namespace({.inside = first_id_of(from_slot),
                                                  .outside = first_id_of(to_slot),
                                                  .count = kIdsPerSandbox}));
  auto mount = TRY(DetachedMount::clone_tree(store.fd(), MountScope::kOneMount));
  TRY_VOID(mount.set_attributes({.read_only = true, .idmap_user_namespace_fd = map.get()}));
  return Store::adopt(TRY(linux::duplicate(mount.fd())));
}

}  // namespace pons::spawner
