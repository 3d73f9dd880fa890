// Merged layers against the kernel's own overlay: whatever was done in a stack of layers, any run
// of them made into one shows the same files.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "forked.h"
#include "layer_tree.h"
#include "pons/linux/fd.h"
#include "pons/linux/mount.h"
#include "pons/linux/namespace.h"

namespace pons::spawner {
namespace {

namespace fs = std::filesystem;
using linux::in_forked_child;
using linux::ScratchDirectory;
using linux::UniqueFd;

constexpr const char* kNames[] = {"a", "b", "c", "d"};

// Every file below with what there is to see of it.
std::string listing(const fs::path& root) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    struct stat info{};
    if (lstat(entry.path().c_str(), &info) != 0) return "cannot inspect " + entry.path().string();
    std::string content;
    if (S_ISREG(info.st_mode)) std::getline(std::ifstream(entry.path()), content);
    if (S_ISLNK(info.st_mode)) content = fs::read_symlink(entry.path());
    lines.push_back(fmt::format("{} {:o} {}", fs::relative(entry.path(), root).string(),
                                info.st_mode, content));
  }
  std::ranges::sort(lines);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

bool has_moved_directory(const fs::path& layer) {
  for (const auto& entry : fs::recursive_directory_iterator(layer))
    if (lgetxattr(entry.path().c_str(), "trusted.overlay.redirect", nullptr, 0) > 0) return true;
  return false;
}

// A stack of layers on a file system of its own, and the overlay of them.
class Layers {
 public:
  explicit Layers(std::string place) : place_(std::move(place)) {
    for (const char* name : {"nothing", "view"}) fs::create_directory(place_ + "/" + name);
  }

  std::vector<int> stack;  // topmost first
  std::string path(int number) const { return fmt::format("{}/{}", place_, number); }

  int add() {
    fs::create_directory(path(next_));
    return next_++;
  }
  // What `use` returns of the view with a new layer on top, or of the stack as it is.
  template <class Use>
  auto with_view(bool writable, const Use& use) {
    linux::OverlayLayers wanted;
    for (const int layer : stack) wanted.lower.push_back(path(layer));
    wanted.lower.push_back(place_ + "/nothing");
    wanted.move_directories = true;
    if (writable) {
      wanted.upper = path(add());
      wanted.work = wanted.upper + "-work";
      fs::create_directory(wanted.work);
      stack.insert(stack.begin(), next_ - 1);
      wanted.skip_sync = true;
    }
    auto mount = linux::DetachedMount::overlay(wanted);
    if (!mount || !std::move(*mount).attach(AT_FDCWD, place_ + "/view")) std::abort();
    auto result = use(fs::path(place_ + "/view"));
    if (umount2((place_ + "/view").c_str(), MNT_DETACH) != 0) std::abort();
    return result;
  }
  std::string look() {
    return with_view(false, [](const fs::path& root) { return listing(root); });
  }

  bool merge(std::size_t first, std::size_t count) {
    const int into = add();
    std::vector<UniqueFd> opened;
    std::vector<int> run, below;
    for (std::size_t i = first; i < stack.size(); ++i) {
      opened.emplace_back(open(path(stack[i]).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      (i < first + count ? run : below).push_back(opened.back().get());
    }
    const UniqueFd to(open(path(into).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto merged = merge_layers(run, below, to.get());
    if (!merged) std::fprintf(stderr, "%s\n", merged.error().describe().c_str());
    const auto at = stack.begin() + static_cast<std::ptrdiff_t>(first);
    stack.insert(stack.erase(at, at + static_cast<std::ptrdiff_t>(count)), into);
    return merged.has_value();
  }

 private:
  std::string place_;
  int next_ = 0;
};

class Vandal {
 public:
  explicit Vandal(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return random_() % bound; }

  // Something is made, written, moved or removed somewhere. What cannot be done is not.
  int act(const fs::path& root) {
    std::error_code ignored;
    for (int i = 0; i < 6; ++i) {
      const fs::path path = somewhere(root);
      switch (below(8)) {
        case 0:
        case 1:
          fs::create_directory(path, ignored);
          break;
        case 2:
          std::ofstream(path) << ++written_;
          break;
        case 3:
          fs::remove_all(path, ignored);
          break;
        case 4:
          (void)chmod(path.c_str(), 0700 + static_cast<mode_t>(below(8)));
          break;
        default:
          (void)rename(path.c_str(), somewhere(root).c_str());
      }
    }
    return 0;
  }

 private:
  fs::path somewhere(fs::path at) {
    for (std::size_t depth = below(4); depth > 0; --depth) {
      const fs::path next = at / kNames[below(std::size(kNames))];
      if (!fs::is_directory(fs::symlink_status(next))) break;
      at = next;
    }
    return at / kNames[below(std::size(kNames))];
  }

  std::mt19937 random_;
  int written_ = 0;
};

// The number of merged runs with moved directories in them, or -1.
int merge_at_random(const std::string& place, unsigned seed) {
  Vandal vandal(seed);
  Layers layers(place);
  int moved = 0;
  for (int round = 0; round < 16; ++round) {
    layers.with_view(true, [&](const fs::path& root) { return vandal.act(root); });
    if (layers.stack.size() < 3 || vandal.below(3) != 0) continue;
    const std::string before = layers.look();
    const std::size_t first = vandal.below(layers.stack.size() - 1);
    const std::size_t count = 2 + vandal.below(layers.stack.size() - first - 1);
    for (std::size_t i = first; i < first + count; ++i)
      if (has_moved_directory(layers.path(layers.stack[i]))) {
        ++moved;
        break;
      }
    if (!layers.merge(first, count)) return -1;
    const std::string after = layers.look();
    if (after == before) continue;
    std::fprintf(stderr, "seed %u, round %d, %zu layers from %zu on\n%s\nbecame\n%s\n", seed, round,
                 count, first, before.c_str(), after.c_str());
    return -1;
  }
  return moved;
}

int merges_at_random() {
  const ScratchDirectory scratch;
  REQUIRE(linux::unshare_namespaces({linux::NamespaceKind::kMount}));
  REQUIRE(linux::make_mounts_private());
  REQUIRE(mount("tmpfs", scratch.path().c_str(), "tmpfs", 0, "size=64m") == 0);
  int moved = 0;
  // Among them one with an opaque directory on the way to a moved one.
  for (unsigned seed = 81; seed <= 120; ++seed) {
    const int seen = merge_at_random(scratch.make_directory(std::to_string(seed)), seed);
    REQUIRE(seen >= 0);
    moved += seen;
  }
  REQUIRE(moved > 10);
  REQUIRE(umount2(scratch.path().c_str(), MNT_DETACH) == 0);
  return 0;
}

TEST(LayerMergeTest, AnyRunOfLayersMadeIntoOneShowsTheSameFiles) {
  EXPECT_EQ(in_forked_child(merges_at_random), 0);
}

}  // namespace
}  // namespace pons::spawner
