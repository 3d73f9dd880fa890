#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cell_client.h"
#include "layer_view.h"
#include "pons/spawner/client.h"

namespace pons::sandbox {

// Everything about a sandbox that is settled when it is built and not when it is claimed.
struct SandboxSpec {
  std::vector<spawner::Digest> template_layers;  // topmost first
  std::uint32_t flags = 0;                       // spawner::CreateFlags
  bool has_way_out = false;
  spawner::SandboxLimits limits;
};
bool same_spec(const SandboxSpec& a, const SandboxSpec& b);
// True when a sandbox of spec `have` can become one of `want` by setting limits only. `want` may
// leave the disk's size to the memory limit; then a smaller disk that fits is right too.
bool can_become(const SandboxSpec& have, const SandboxSpec& want, bool disk_is_derived);

spawner::Request spawner_request(spawner::RequestKind kind, std::uint64_t key);
void set_spec(spawner::Create& create, const SandboxSpec& spec);
void set_layers(spawner::View& view, std::uint32_t upper, const Layers& layers);
std::uint64_t make_key();

// What is asked of the spawner, in the words of this folder.
class Spawning {
 public:
  Spawning(linux::Loop& loop, spawner::Client& client)
      : loop_(loop), client_(client), destroyed_(loop), tasks_(loop) {}

  struct WayOut {
    linux::UniqueFd listener;
    linux::UniqueFd names;
  };
  struct Built {
    std::uint64_t key = 0;
    std::shared_ptr<CellClient> cell;  // shared with calls that still wait when the sandbox ends
    std::optional<WayOut> way_out;     // nobody listens to it yet
  };
  Task<Result<Built>> build(SandboxSpec spec, std::uint64_t key, Layers below = {});
  Task<Result<std::shared_ptr<CellClient>>> connect(std::uint64_t key);
  Task<Result<spawner::SpawnerReply>> call(spawner::Request request,
                                           Duration reply_time = std::chrono::seconds(10));
  Task<Result<std::vector<std::uint64_t>>> list();
  linux::Event& begun() { return client_.begun(); }  // as of the client

  // Takes the sandbox down in the background, trying again when it fails. Returns at once unless
  // very many are being taken down already.
  Task<> destroy(std::uint64_t key);
  void destroy_soon(std::uint64_t key) { tasks_.spawn(destroy_now(key)); }
  std::size_t destroying() const { return destroying_; }
  Task<> wait_until_destroyed(TimePoint deadline);

  // A sandbox that somebody builds, examines or takes down at this moment and that stands in no
  // other list.
  class InHand {
   public:
    InHand(Spawning& owner, std::uint64_t key) : keys_(owner.in_hand_), at_(keys_.insert(key)) {}
    InHand(const InHand&) = delete;
    InHand& operator=(const InHand&) = delete;
    ~InHand() { keys_.erase(at_); }

   private:
    std::multiset<std::uint64_t>& keys_;
    std::multiset<std::uint64_t>::iterator at_;
  };
  const std::multiset<std::uint64_t>& in_hand() const { return in_hand_; }

 private:
  Task<Result<WayOut>> open_way_out(std::uint64_t key);
  Task<> destroy_now(std::uint64_t key);
  linux::Loop& loop_;
  spawner::Client& client_;
  std::size_t destroying_ = 0;
  std::multiset<std::uint64_t> in_hand_;
  linux::Event destroyed_;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

}  // namespace pons::sandbox
