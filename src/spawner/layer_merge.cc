// Merging looks every name up as the kernel would in an overlay of all the layers, so that the
// result stands for the merged ones: to those that look for it from above, and in what it makes
// the kernel find below.

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "layer_files.h"
#include "layer_tree.h"

namespace pons::spawner {

namespace {

using linux::UniqueFd;

constexpr std::size_t kRedirectBytesMax = 4096;

Error not_mergeable(const char* why) {
  return os_error("merge layers", why, EOPNOTSUPP);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != "..";
}

// "name": where it was in the same directory; "/path/name": where it was in the root.
bool is_sound_redirect(std::string_view target) {
  if (!target.starts_with('/'))
    return is_plain_name(target) && target.find('/') == std::string_view::npos;
  while (!target.empty()) {
    target.remove_prefix(1);
    const std::size_t end = std::min(target.find('/'), target.size());
    if (!is_plain_name(target.substr(0, end))) return false;
    target.remove_prefix(end);
  }
  return true;
}

// What one layer has of a directory.
struct Part {
  std::size_t layer;  // 0: the topmost
  UniqueFd directory;
};
using Parts = std::vector<Part>;  // topmost first

// A directory that was looked up by its name.
struct Found {
  Parts parts;
  bool ends = false;  // nothing of the layers below the merged ones can be seen in it
  std::string below;  // what those are searched for: its name, or what a mark led to
};

class Merge {
 public:
  // The first `count` of `layers` are merged.
  Merge(std::vector<int> layers, std::size_t count, Privileges privileges)
      : layers_(std::move(layers)),
        count_(count),
        may_move_(privileges == Privileges::kHostRoot),
        marks_(marks_of(privileges)) {}

  Result<void> run(int to) const {
    Parts roots;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer)
      roots.push_back({layer, TRY(linux::duplicate(layers_[layer]))});
    return fill(roots, to, 0);
  }

 private:
  bool is_below(const Part& part) const { return part.layer >= count_; }

  Result<std::optional<std::string>> redirect_of(int directory) const {
    std::array<char, kRedirectBytesMax> value;
    const ssize_t size = fgetxattr(directory, marks_.redirect, value.data(), value.size());
    if (size < 0 && (errno == ENODATA || errno == EOPNOTSUPP)) return std::nullopt;
    if (size < 0) return os_error("read mark of moved directory");
    std::string target(value.data(), static_cast<std::size_t>(size));
    // The kernel follows no marks that the sandbox's own user could have written.
    if (!may_move_ || !is_sound_redirect(target)) return not_mergeable("a mark makes no sense");
    return target;
  }

  // What one layer has of `target`: a name in the directory `base`, or a path from there. A mark on
  // the way changes the target for the layers below; `ends` when they cannot be seen.
  Result<std::optional<UniqueFd>> look_in(int base, std::string& target, bool& ends) const {
    UniqueFd at;
    for (std::size_t begin = target.starts_with('/') ? 1 : 0;;) {
      const std::size_t end = std::min(target.find('/', begin), target.size());
      const std::string rest = target.substr(end);
      const std::string name = target.substr(begin, end - begin);
      const auto info = inspect(base, name);
      if (!info && info.error().code == ErrorCode::kNotFound) return std::nullopt;
      if (!info) return info.error();
      if (!S_ISDIR(info->st_mode)) {
        ends = true;
        return std::nullopt;
      }
      UniqueFd directory = TRY(open_child(base, name));
      if (is_opaque(directory.get(), marks_)) {
        ends = true;
      } else if (const auto moved = TRY(redirect_of(directory.get()))) {
        const bool from_root = moved->starts_with('/');
        target = (from_root ? *moved : target.substr(0, begin) + *moved) + rest;
        if (from_root) ends = false;  // what is opaque on the way to it does not matter any more
      }
      at = std::move(directory);
      base = at.get();
      if (rest.empty()) return std::optional(std::move(at));
      begin = target.size() - rest.size() + 1;
    }
  }

  // The directory `name` in one that is made of `parents`, none above `first` of which has it.
  Result<Found> look_up(const Parts& parents, std::size_t first, const std::string& name) const {
    Found found;
    std::string target = name;
    bool ends = false;
    for (std::size_t layer = first; layer < layers_.size() && !ends; ++layer) {
      if (layer == count_) found.below = target;
      // Paths begin in the root of each layer, names in what it has of the parent.
      const auto parent = std::ranges::find(parents, layer, &Part::layer);
      if (!target.starts_with('/') && parent == parents.end()) continue;
      const int base = target.starts_with('/') ? layers_[layer] : parent->directory.get();
      auto directory = TRY(look_in(base, target, ends));
      if (directory) found.parts.push_back({layer, std::move(*directory)});
      found.ends = ends && layer < count_;
    }
    if (found.below.empty()) found.below = target;
    return found;
  }

  // Everything in a directory that is made of `parts`.
  Result<void> fill(const Parts& parts, int to, int depth) const {
    if (depth > kDepthMax) return not_mergeable("directories lie too deep");
    std::set<std::string, std::less<>> seen;
    for (const Part& part : parts) {
      if (is_below(part)) break;
      const int from = part.directory.get();
      for (const std::string& name : TRY(names_in(from))) {
        if (!seen.insert(name).second) continue;
        const struct stat info = TRY(inspect(from, name));
        if (S_ISDIR(info.st_mode)) {
          const Found found = TRY(look_up(parts, part.layer, name));
          TRY_VOID(merge_directory(found, to, name, depth));
          continue;
        }
        // A whiteout that hides nothing would be seen: the kernel looks for them only in
        // directories that it puts together from several layers.
        if (is_whiteout(info) && !is_in_any_below(parts, name)) continue;
        if (linkat(from, name.c_str(), to, name.c_str(), 0) != 0) return os_error("link file");
      }
    }
    return {};
  }

  bool is_in_any_below(const Parts& parts, const std::string& name) const {
    return std::ranges::any_of(parts, [&](const Part& part) {
      return is_below(part) && inspect(part.directory.get(), name).has_value();
    });
  }

  Result<void> merge_directory(const Found& found, int to, const std::string& name,
                               int depth) const {
    const UniqueFd made = TRY(make_child(to, name));
    TRY_VOID(fill(found.parts, made.get(), depth + 1));
    const int top = found.parts.front().directory.get();
    TRY_VOID(copy_attributes(top, made.get(), marks_, CopyMarks::kNo));
    TRY_VOID(mark(found, made.get(), name));
    struct stat info{};
    if (fstat(top, &info) != 0) return os_error("inspect directory");
    return dress(made.get(), info, {info.st_uid, info.st_gid});
  }

  // Says where the kernel goes on from the merged layer.
  Result<void> mark(const Found& found, int made, const std::string& name) const {
    const bool led_away = found.below != name;
    const bool goes_on =
        std::ranges::any_of(found.parts, [&](const Part& p) { return is_below(p); });
    if (found.ends || (led_away && !goes_on)) {
      if (fsetxattr(made, marks_.opaque, "y", 1, 0) != 0) return os_error("mark directory opaque");
    } else if (led_away) {
      if (found.below.size() > kRedirectBytesMax) return not_mergeable("a path is too long");
      if (fsetxattr(made, marks_.redirect, found.below.data(), found.below.size(), 0) != 0)
        return os_error("mark moved directory");
    }
    return {};
  }

  std::vector<int> layers_;
  std::size_t count_;
  bool may_move_;
  const Marks& marks_;
};

}  // namespace

Result<void> merge_layers(const std::vector<int>& layers, const std::vector<int>& below, int to,
                          Privileges privileges) {
  std::vector<int> all = layers;
  all.insert(all.end(), below.begin(), below.end());
  TRY_VOID(Merge(std::move(all), layers.size(), privileges).run(to));
  struct stat info{};
  if (fstat(layers.front(), &info) != 0) return os_error("inspect layer");
  return dress(to, info, {info.st_uid, info.st_gid});
}

}  // namespace pons::spawner
