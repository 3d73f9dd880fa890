#include "view.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include <fmt/format.h>

#include "ground.h"
#include "layer_tree.h"
#include "pons/spawner/left_out.h"

namespace pons::spawner {

namespace {

using linux::DetachedMount;
using linux::MountScope;
using linux::UniqueFd;

constexpr std::size_t kClonesMax = 16;

// Owners of the template's files become the sandbox's own root and users.
Result<DetachedMount> clone_layer(const std::string& path, int user_namespace) {
  auto mount = TRY(DetachedMount::clone_tree(path, MountScope::kOneMount));
  TRY_VOID(mount.set_attributes({.read_only = true, .idmap_user_namespace_fd = user_namespace}));
  return mount;
}

// A layer can be removed and made again under the same name.
bool is_same_directory(int fd, const std::string& path) {
  struct stat one{};
  struct stat other{};
  return fstat(fd, &one) == 0 && stat(path.c_str(), &other) == 0 && one.st_ino == other.st_ino &&
         one.st_dev == other.st_dev;
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

// Template layers as overlayfs takes them, until the overlay has made its own copies.
class TemplateLayers {
 public:
  explicit TemplateLayers(const ViewSources& sources) : sources_(sources) {}

  Result<std::string> add(const Digest& digest) {
    const std::string path = template_layer_path(digest, sources_.layer_directory);
    const bool idmapped = sources_.privileges == Privileges::kHostRoot;
    const int user_namespace = idmapped ? sources_.user_namespace : -1;
    if (sources_.layer_mounts == LayerMounts::kDetached)
      return path_of(TRY(sources_.clones.find_or_clone(path, user_namespace)));
    std::string place = fmt::format("layer-{}", attached_.size());
    if (mkdir(place.c_str(), 0700) != 0 && errno != EEXIST) return os_error("show layer", place);
    auto mount = TRY(clone_layer(path, user_namespace));
    TRY_VOID(std::move(mount).attach(AT_FDCWD, place));
    attached_.emplace_back(place);
    return place;
  }

 private:
  const ViewSources& sources_;
  std::vector<linux::UniqueMount> attached_;
};

}  // namespace

Result<int> LayerClones::find_or_clone(const std::string& path, int user_namespace) {
  const auto found = std::ranges::find(clones_, path, &Clone::path);
  if (found != clones_.end()) {
    if (is_same_directory(found->mount.fd(), path)) return found->mount.fd();
    clones_.erase(found);
  }
  clones_.push_back({path, TRY(clone_layer(path, user_namespace))});
  return clones_.back().mount.fd();
}

void LayerClones::bound() {
  if (clones_.size() > kClonesMax) clones_.clear();
}

std::vector<UniqueFd> LayerClones::give_up() && {
  std::vector<UniqueFd> given;
  for (Clone& clone : clones_) given.push_back(std::move(clone.mount).give_up());
  clones_.clear();
  return given;
}

std::string template_layer_path(const Digest& digest, const std::string& layer_directory) {
  if (is_host_layer(digest)) return layer_directory + "/host/fs";
  if (digest == kTrustLayer) return layer_directory + "/trust/fs";
  std::string name;
  for (const std::uint8_t byte : digest.bytes) name += fmt::format("{:02x}", byte);
  return fmt::format("{}/{}/fs", layer_directory, name);
}

Outcome<DetachedMount> build_view(const View& view, const ViewSources& sources, bool allow_setuid) {
  std::vector<UniqueFd> own;
  TemplateLayers from_template(sources);
  sources.clones.bound();
  linux::OverlayLayers layers;
  // The kernel takes marks of moved directories only from who could not forge them.
  layers.move_directories = sources.privileges == Privileges::kHostRoot;
  layers.user_xattr = sources.privileges == Privileges::kOwnNamespace;
  // A sandbox does not outlive the host, and the end of a view would wait for all of its disk.
  layers.skip_sync = true;
  layers.source = fmt::format("{}{}", kViewSourcePrefix, view.upper);
  for (const OwnLayer& layer : std::span(view.layers).first(view.layer_count)) {
    own.push_back(STEP(Step::kStore, open_own_layer(layer, sources)));
    layers.lower.push_back(path_of(own.back().get()));
  }
  for (const Digest& digest : sources.template_layers) {
    layers.lower.push_back(STEP(Step::kTemplateLayer, from_template.add(digest)));
  }
  STEP_VOID(Step::kStore,
            sources.store.add_layer(view.upper, owner_of(sources.privileges, sources.slot)));
  const UniqueFd upper = STEP(Step::kStore, sources.store.open_layer(view.upper));
  const UniqueFd work = STEP(Step::kStore, sources.store.open_work(view.upper));
  layers.upper = path_of(upper.get());
  layers.work = path_of(work.get());
  auto mount = STEP(Step::kOverlay, DetachedMount::overlay(layers));
  STEP_VOID(Step::kOverlay,
            mount.set_attributes({.no_suid = !allow_setuid && !is_protection_left_out("no_suid"),
                                  .no_dev = !is_protection_left_out("no_dev")}));
  return mount;
}

LayerMounts probe_layer_mounts() {
  return linux::overlay_takes_detached_layers() ? LayerMounts::kDetached : LayerMounts::kAttached;
}

Result<Store> copy_store(const Store& store, std::span<const std::uint32_t> layers,
                         const SandboxLimits& limits, std::uint32_t from_slot,
                         std::uint32_t to_slot) {
  Store copy = TRY(Store::create_in_memory(limits));
  for (const std::uint32_t number : layers) {
    TRY_VOID(copy.add_layer(number, first_id_of(to_slot)));
    const UniqueFd from = TRY(store.open_layer(number));
    const UniqueFd to = TRY(copy.open_layer(number));
    TRY_VOID(copy_layer(from.get(), to.get(), first_id_of(from_slot), first_id_of(to_slot)));
  }
  return copy;
}

Result<Store> map_store(const Store& store, std::uint32_t from_slot, std::uint32_t to_slot,
                        Privileges privileges) {
  auto mount = TRY(DetachedMount::clone_tree(store.fd(), MountScope::kOneMount));
  if (privileges == Privileges::kOwnNamespace) {
    TRY_VOID(mount.set_attributes({.read_only = true}));
    return Store::adopt(TRY(linux::duplicate(mount.fd())));
  }
  const UniqueFd map = TRY(create_user_namespace({.inside = first_id_of(from_slot),
                                                  .outside = first_id_of(to_slot),
                                                  .count = kIdsPerSandbox}));
  TRY_VOID(mount.set_attributes({.read_only = true, .idmap_user_namespace_fd = map.get()}));
  return Store::adopt(TRY(linux::duplicate(mount.fd())));
}

}  // namespace pons::spawner
