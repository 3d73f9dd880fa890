#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/mount.h"
#include "pons/spawner/protocol.h"
#include "privileges.h"
#include "store.h"

namespace pons::spawner {

// A failure of the spawner's work: which step, and what the kernel said.
struct Failure {
  Step step = Step::kNone;
  int os_error = 0;
};

// The result of one of the spawner's steps. STEP names the step of what failed below; PASS hands
// on a failure that has one.
template <class T = void>
using Outcome = std::expected<T, Failure>;

inline std::unexpected<Failure> failed(Step step, const Error& error) {
  return std::unexpected(Failure{step, error.os_error != 0 ? error.os_error : EIO});
}

#define STEP(step, expression)                                    \
  __extension__({                                                 \
    auto step_result_ = (expression);                             \
    if (!step_result_) return failed(step, step_result_.error()); \
    std::move(*step_result_);                                     \
  })
#define STEP_VOID(step, expression)                      \
  do {                                                   \
    if (auto step_result_ = (expression); !step_result_) \
      return failed(step, step_result_.error());         \
  } while (false)
#define PASS(expression)                                             \
  __extension__({                                                    \
    auto pass_result_ = (expression);                                \
    if (!pass_result_) return std::unexpected(pass_result_.error()); \
    std::move(*pass_result_);                                        \
  })
#define PASS_VOID(expression)                            \
  do {                                                   \
    if (auto pass_result_ = (expression); !pass_result_) \
      return std::unexpected(pass_result_.error());      \
  } while (false)

// Layers of another sandbox that this one stands on since it was forked. They outlive their maker.
struct Borrowed {
  std::uint64_t sandbox = 0;
  std::uint32_t slot = 0;
  std::shared_ptr<const Store> store;
  std::shared_ptr<const Store> mapped;  // the same with the borrower's ids as owners
};

// How layers are handed to overlayfs. kAttached is for kernels before 6.15, which take only mounts
// that are attached in the caller's mount namespace.
enum class LayerMounts : std::uint8_t { kDetached, kAttached };

// What this kernel takes.
LayerMounts probe_layer_mounts();

// Template layers as one sandbox sees them, with its own root as their owner. They are kept for its
// next view, and for the next sandbox with the same user namespace: making one takes microseconds,
// but letting it go waits for all processors.
class LayerClones {
 public:
  // A directory; valid until bound() is called.
  Result<int> find_or_clone(const std::string& path, int user_namespace);
  void bound();  // forgets all when there are many
  // All of them, to be closed by somebody who can wait for the kernel.
  std::vector<linux::UniqueFd> give_up() &&;

 private:
  struct Clone {
    std::string path;
    linux::DetachedMount mount;
  };
  std::vector<Clone> clones_;
};

struct ViewSources {
  Privileges privileges = Privileges::kHostRoot;
  std::uint64_t sandbox = 0;  // whose view it is
  std::uint32_t slot = 0;
  int user_namespace = -1;
  LayerClones& clones;
  const Store& store;
  std::span<const Borrowed> borrowed;
  std::span<const Digest> template_layers;  // topmost first
  const std::string& layer_directory;
  LayerMounts layer_mounts = LayerMounts::kDetached;
};

// Where the files of a template's layer lie.
std::string template_layer_path(const Digest& digest, const std::string& layer_directory);

// A view's source, as lists of mounts show it, is this and the number of its upper.
inline constexpr std::string_view kViewSourcePrefix = "view-";

// The mount of a view: `view.upper` is made and empty.
Outcome<linux::DetachedMount> build_view(const View& view, const ViewSources& sources,
                                         bool allow_setuid);

// The same store, read only, with every owner moved from one range of ids to another.
Result<Store> map_store(const Store& store, std::uint32_t from_slot, std::uint32_t to_slot,
                        Privileges privileges);

// The same by copying `layers` of it, for kernels before 6.3, where memory file systems take no
// map.
Result<Store> copy_store(const Store& store, std::span<const std::uint32_t> layers,
                         const SandboxLimits& limits, std::uint32_t from_slot,
                         std::uint32_t to_slot);

inline bool is_host_layer(const Digest& digest) {
  return digest == Digest{};
}

}  // namespace pons::spawner
