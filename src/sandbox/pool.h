#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "claimed_work.h"
#include "notes.h"
#include "pool_size.h"
#include "spawning.h"

namespace pons::sandbox {

struct PoolSettings {
  std::uint64_t memory_bytes = 0;  // of all that wait ready together
  PoolBounds bounds;
  Duration check_every{};
  Duration check_time{};
};

// Sandboxes without an identity, built beforehand, one queue per spec. Grows with the rate of
// claims and shrinks when they stop; building and taking down happen in the background.
class Pool {
 public:
  struct Entry {
    Spawning::Built built;
    SandboxSpec spec;
    Note note;  // still empty
  };

  Pool(linux::Loop& loop, Spawning& spawning, Notes& notes, PoolSettings settings);

  // Begins to build. `always`: the spec that is kept ready even when nobody asks.
  void start(SandboxSpec always);
  // One that is well, of the spec or able to become it; nothing when there is none.
  std::optional<Entry> take(const SandboxSpec& spec, bool disk_is_derived);
  // Takes down all that stand on these layers, and maybe on others besides.
  void drain(const std::vector<spawner::Digest>& template_layers);
  void stop();

  // Builds wait while a claim is being served, and while what was claimed most likely works, unless
  // none is left.
  struct ClaimInProgress {
    explicit ClaimInProgress(Pool& pool) : pool_(pool) { ++pool_.claims_; }
    ClaimInProgress(const ClaimInProgress&) = delete;
    ~ClaimInProgress() {
      pool_.claimed_work_.claimed(pool_.loop_.now());
      if (--pool_.claims_ == 0) pool_.changed_.set();
    }
    Pool& pool_;
  };

  std::size_t ready() const;
  std::vector<std::uint64_t> keys() const;  // of those that wait
  std::size_t target(const SandboxSpec& spec) const;

 private:
  struct Queue {
    SandboxSpec spec;
    std::uint64_t serial = 0;  // of two with the same spec, one of which was drained
    PoolSize size;
    std::deque<Entry> entries;
    int building = 0;
    bool always = false;
  };
  static std::uint64_t bytes_of(const Queue& queue);
  Queue* find(const SandboxSpec& spec);
  Queue& ensure(const SandboxSpec& spec);
  Queue* neediest();
  std::size_t target_of(const Queue& queue) const;
  bool has_room() const;
  void discard(Entry& entry);
  void shrink();
  Task<> keep_filled();
  Task<> build_one(SandboxSpec spec, std::uint64_t serial);
  Task<> keep_well();
  std::shared_ptr<CellClient> cell_of(std::uint64_t key) const;

  linux::Loop& loop_;
  Spawning& spawning_;
  Notes& notes_;
  PoolSettings settings_;
  std::list<Queue> queues_;
  std::uint64_t next_serial_ = 1;
  int claims_ = 0;
  int building_ = 0;
  int failures_ = 0;
  TimePoint not_before_{};
  ClaimedWork claimed_work_;
  linux::Event changed_;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

}  // namespace pons::sandbox
