#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/fd.h"
#include "pons/linux/namespace.h"
#include "privileges.h"
#include "view.h"

namespace pons::spawner {

inline constexpr std::uint32_t kIdsPerSandbox = 65'536;
// Above the users of the roles, below the ids that stand for "nobody" and "no such id".
inline constexpr std::uint32_t kFirstSandboxId = 0x7010'0000;
inline constexpr std::uint32_t kSlotCount = (0xFFFF'0000U - kFirstSandboxId) / kIdsPerSandbox;

constexpr std::uint32_t first_id_of(std::uint32_t slot) {
  return kFirstSandboxId + slot * kIdsPerSandbox;
}

// Whose the files of a sandbox's root are, in the spawner's own user namespace.
constexpr std::uint32_t owner_of(Privileges privileges, std::uint32_t slot) {
  return privileges == Privileges::kHostRoot ? first_id_of(slot) : 0;
}

// What a sandbox stands on, made before anyone asks for it: a range of user ids that nobody else
// has, the user namespace that maps it, and a network namespace. The network namespace belongs to
// the host's user namespace, so root in the sandbox has no power over it.
struct Ground {
  std::uint32_t slot = 0;
  linux::UniqueFd user_namespace;
  linux::UniqueFd net_namespace;
  LayerClones layers;
};

// A user namespace without a process in it.
Result<linux::UniqueFd> create_user_namespace(const linux::IdMap& map);

class Grounds {
 public:
  static Result<Grounds> create(Privileges privileges);

  Result<Ground> take();  // a prepared one, or one made now
  // Makes one for later unless there are enough; false when there was nothing to do.
  Result<bool> prepare_one();
  void release(std::uint32_t slot) { used_.erase(slot); }
  // Of a sandbox that has ended to the last process: its ids and its user namespace serve again.
  // Nobody inside has power over that one, and all the files its ids owned are gone. The network
  // namespace is the sandbox's own: too much of its former user could be read from it. False, and
  // nothing is taken, when enough wait for it.
  bool recycle(Ground& ground);
  std::size_t prepared() const { return prepared_.size(); }
  std::size_t rested() const { return rested_.size(); }
  void reserve(std::uint32_t slot) { used_.insert(slot); }  // of a sandbox found alive

  // Runs `work` in a network namespace and comes home again, whatever happens.
  Result<void> visit(int net_namespace, const std::function<Result<void>()>& work) const;
  const linux::NamespaceFd& home() const { return home_; }

 private:
  Grounds(Privileges privileges, linux::NamespaceFd home, linux::UniqueFd processes)
      : privileges_(privileges), home_(std::move(home)), processes_(std::move(processes)) {}
  Result<Ground> make_one();
  Result<linux::UniqueFd> make_net_namespace();
  Result<Ground> make_users();

  Privileges privileges_;
  linux::NamespaceFd home_;
  linux::UniqueFd processes_;  // a /proc with writable settings, seen by nobody else
  std::set<std::uint32_t> used_;
  std::uint32_t next_slot_ = 0;
  std::deque<Ground> prepared_;
  std::deque<Ground> rested_;  // without a network namespace
};

}  // namespace pons::spawner
