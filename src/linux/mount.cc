#include "pons/linux/mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::linux {
namespace {

unsigned recursion_of(MountScope scope) {
  return scope == MountScope::kWholeTree ? AT_RECURSIVE : 0U;
}

// A filesystem being configured. Its descriptor also hands out why it refused something.
class FilesystemContext {
 public:
  static Result<FilesystemContext> open(const std::string& type) {
    UniqueFd fd(fsopen(type.c_str(), FSOPEN_CLOEXEC));
    if (!fd) return os_error("open filesystem type", type);
    return FilesystemContext(std::move(fd), type);
  }

  Result<void> set(const std::string& key, const std::string& value) {
    const int outcome =
        value.empty() ? fsconfig(fd_.get(), FSCONFIG_SET_FLAG, key.c_str(), nullptr, 0)
                      : fsconfig(fd_.get(), FSCONFIG_SET_STRING, key.c_str(), value.c_str(), 0);
    if (outcome != 0) return explain("configure filesystem", key);
    return {};
  }

  Result<UniqueFd> create() {
    if (fsconfig(fd_.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
      return explain("create filesystem", {});
    UniqueFd mount_fd(fsmount(fd_.get(), FSMOUNT_CLOEXEC, 0));
    if (!mount_fd) return explain("create mount", {});
    return mount_fd;
  }

 private:
  FilesystemContext(UniqueFd fd, std::string type) : fd_(std::move(fd)), type_(std::move(type)) {}

  Error explain(const char* step, const std::string& what) {
    Error error = os_error(step, type_);
    if (!what.empty()) error.message += " " + what;
    char line[512];  // "e overlay: No changes allowed": one message per read
    for (int count = 0; count < 8; ++count) {
      const ssize_t got = read(fd_.get(), line, sizeof line);
      if (got <= 2) break;
      error.message += ": ";
      error.message += trim(std::string_view(line + 2, static_cast<std::size_t>(got) - 2));
    }
    return error;
  }

  UniqueFd fd_;
  std::string type_;
};

// Layers are named by descriptor, relative to /proc/self/fd: fsconfig takes at most 255 bytes,
// older kernels refuse commas, and a colon would end a path. The descriptors, and the working
// directory they are relative to, are needed until the filesystem exists.
class LayerNames {
  static constexpr std::string_view kDescriptors = "/proc/self/fd/";

 public:
  static Result<LayerNames> create() {
    LayerNames names;
    names.home_ = TRY(open_file(".", O_PATH | O_DIRECTORY));
    return names;
  }
  LayerNames(LayerNames&&) noexcept = default;
  LayerNames& operator=(LayerNames&&) = delete;
  ~LayerNames() {
    if (home_ && entered_) CHECK(fchdir(home_.get()) == 0);
  }

  Result<std::string> add(const std::string& path) {
    // Open already, and the caller keeps it so.
    if (path.starts_with(kDescriptors)) return path.substr(kDescriptors.size());
    opened_.push_back(TRY(open_file(path, O_PATH | O_DIRECTORY)));
    return std::to_string(opened_.back().get());
  }
  Result<void> enter() {
    if (chdir("/proc/self/fd") != 0) return os_error("enter list of descriptors");
    entered_ = true;
    return {};
  }

 private:
  LayerNames() = default;
  std::vector<UniqueFd> opened_;
  UniqueFd home_;
  bool entered_ = false;
};

Result<void> set_lower_layers(FilesystemContext& context, const std::vector<std::string>& names,
                              LayerSyntax syntax) {
  if (syntax == LayerSyntax::kColonList)
    return context.set("lowerdir", fmt::format("{}", fmt::join(names, ":")));
  for (const std::string& name : names) TRY_VOID(context.set("lowerdir+", name));
  return {};
}

}  // namespace

Result<DetachedMount> DetachedMount::clone_tree(const std::string& path, MountScope scope) {
  UniqueFd fd(
      open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursion_of(scope)));
  if (!fd) return os_error("clone mount", path);
  return DetachedMount(std::move(fd));
}

Result<DetachedMount> DetachedMount::clone_tree(int path_fd, MountScope scope) {
  UniqueFd fd(open_tree(path_fd, "",
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | recursion_of(scope)));
  if (!fd) return os_error("clone mount");
  return DetachedMount(std::move(fd));
}

Result<DetachedMount> DetachedMount::new_filesystem(
    const std::string& type, std::span<const std::pair<std::string, std::string>> options) {
  FilesystemContext context = TRY(FilesystemContext::open(type));
  for (const auto& [key, value] : options) TRY_VOID(context.set(key, value));
  return DetachedMount(TRY(context.create()));
}

Result<DetachedMount> DetachedMount::overlay(const OverlayLayers& layers, LayerSyntax syntax) {
  const bool writable = !layers.upper.empty();
  if (layers.lower.size() < (writable ? 1U : 2U) || writable == layers.work.empty())
    return make_error(ErrorCode::kInvalid, "create overlay",
                      "needs upper, work and a lower layer, or two lower layers alone");
  LayerNames layer_names = TRY(LayerNames::create());
  std::vector<std::string> lower;
  for (const std::string& path : layers.lower) lower.push_back(TRY(layer_names.add(path)));
  const std::string upper = writable ? TRY(layer_names.add(layers.upper)) : "";
  const std::string work = writable ? TRY(layer_names.add(layers.work)) : "";
  TRY_VOID(layer_names.enter());

  FilesystemContext context = TRY(FilesystemContext::open("overlay"));
  auto set = set_lower_layers(context, lower, syntax);
  if (!set && set.error().os_error == EINVAL && syntax == LayerSyntax::kNewest) {
    context = TRY(FilesystemContext::open("overlay"));
    set = set_lower_layers(context, lower, LayerSyntax::kColonList);
  }
  TRY_VOID(std::move(set));
  if (writable) {
    TRY_VOID(context.set("upperdir", upper));
    TRY_VOID(context.set("workdir", work));
  }
  if (!layers.source.empty()) TRY_VOID(context.set("source", layers.source));
  if (layers.user_xattr) TRY_VOID(context.set("userxattr", {}));
  if (layers.move_directories) TRY_VOID(context.set("redirect_dir", "on"));
  if (layers.skip_sync) TRY_VOID(context.set("volatile", {}));
  return DetachedMount(TRY(context.create()));
}

bool overlay_takes_detached_layers() {
  const std::pair<std::string, std::string> options[] = {{"size", "64k"}};
  const auto below = DetachedMount::new_filesystem("tmpfs", options);
  const auto above = DetachedMount::new_filesystem("tmpfs", options);
  const auto path_of = [](const DetachedMount& mount) {
    return "/proc/self/fd/" + std::to_string(mount.fd());
  };
  return below && above &&
         DetachedMount::overlay(
             {.lower = {path_of(*above), path_of(*below)}, .upper = {}, .work = {}});
}

Result<void> DetachedMount::set_attributes(const MountAttributes& attributes) {
  mount_attr wanted{};
  if (attributes.read_only) wanted.attr_set |= MOUNT_ATTR_RDONLY;
  if (attributes.no_suid) wanted.attr_set |= MOUNT_ATTR_NOSUID;
  if (attributes.no_exec) wanted.attr_set |= MOUNT_ATTR_NOEXEC;
  if (attributes.no_dev) wanted.attr_set |= MOUNT_ATTR_NODEV;
  if (attributes.idmap_user_namespace_fd >= 0) {
    wanted.attr_set |= MOUNT_ATTR_IDMAP;
    wanted.userns_fd = static_cast<std::uint64_t>(attributes.idmap_user_namespace_fd);
  }
  if (mount_setattr(fd_.get(), "", AT_EMPTY_PATH | recursion_of(attributes.scope), &wanted,
                    sizeof wanted) != 0)
    return os_error("set mount attributes");
  return {};
}

Result<void> DetachedMount::attach(int directory_fd_or_cwd, const std::string& path) && {
  const unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (path.empty() ? MOVE_MOUNT_T_EMPTY_PATH : 0U);
  if (move_mount(fd_.get(), "", directory_fd_or_cwd, path.c_str(), flags) != 0)
    return os_error("attach mount", path);
  fd_.reset();
  return {};
}

void MountTraits::close(const std::string& path) noexcept {
  if (umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0)
    LOG_WARN("cannot unmount", {"error", os_error("unmount", path)});
}

Result<void> make_mounts_private() {
  mount_attr wanted{};
  wanted.propagation = MS_PRIVATE;
  if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &wanted, sizeof wanted) != 0)
    return os_error("make mounts private");
  return {};
}

namespace {

// With both names the same the old root ends up on top of the new one, at the same place, and needs
// no directory of its own. It is the working directory then.
Result<void> pivot_below(int root_fd) {
  if (fchdir(root_fd) != 0) return os_error("enter new root");
  if (syscall(SYS_pivot_root, ".", ".") != 0) return os_error("pivot root");
  return {};
}

}  // namespace

Result<void> pivot_over(int root_fd, int place_fd) {
  const UniqueFd old_root = TRY(open_file("/", O_PATH | O_DIRECTORY));
  TRY_VOID(pivot_below(root_fd));
  if (move_mount(old_root.get(), "", place_fd, "",
                 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
    return os_error("move old root");
  if (chdir("/") != 0) return os_error("enter new root");
  return {};
}

Result<void> pivot_to(int root_fd) {
  TRY_VOID(pivot_below(root_fd));
  if (umount2(".", MNT_DETACH) != 0) return os_error("detach old root");
  if (chdir("/") != 0) return os_error("enter new root");
  return {};
}

}  // namespace pons::linux
