#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cell_process.h"
#include "disk_image.h"
#include "ground.h"
#include "pons/linux/cgroup.h"
#include "pons/linux/io_throttle.h"
#include "pons/roles/keeper.h"
#include "pons/spawner/protocol.h"
#include "sandbox_filter.h"
#include "staged_trees.h"
#include "store.h"
#include "undertaker.h"
#include "view.h"
#include "way_out.h"

namespace pons::spawner {

// One living sandbox, as far as the spawner has to know it. Everything here can be had again after
// a restart: the descriptors lie with the supervisor, the rest follows from the key.
struct Sandbox {
  std::uint64_t key = 0;
  std::uint32_t slot = 0;
  linux::UniqueFd user_namespace;
  linux::UniqueFd net_namespace;
  linux::UniqueFd mount_namespace;
  LayerClones layers;
  linux::UniqueFd cell;  // pidfd
  std::shared_ptr<const Store> store;
  std::optional<DiskTraffic> traffic_before;  // of a store on disk
  std::vector<Borrowed> borrowed;
  std::optional<linux::Cgroup> cgroup;
  std::optional<linux::Nftables> rules;  // of its network namespace, when it has a way out
  bool frozen = false;
  std::optional<std::uint32_t> upper;  // of the mounted view; nothing: to be looked up
};

std::string name_of_key(std::uint64_t key);
std::string socket_path(std::uint64_t key);  // of its cell, for the warden

// Held for no sandbox yet.
struct NamespacesReady {
  std::size_t user = 0;
  std::size_t net = 0;
  std::size_t mount = 0;
};

class Sandboxes {
 public:
  // Takes over what a former process of the spawner left alive, and removes what nobody knows.
  static Result<Sandboxes> create(roles::Keeper& keeper,
                                  Privileges privileges = Privileges::kHostRoot,
                                  LayerMounts layer_mounts = probe_layer_mounts());

  // A connection to the cell of the sandbox, which is made unless it exists.
  Outcome<linux::UniqueFd> create_sandbox(const Request& request);
  Outcome<linux::UniqueFd> connect(std::uint64_t key) const;
  Outcome<> switch_view(const Request& request);
  // The number of the upper that its processes write to.
  Outcome<std::uint32_t> find_upper(std::uint64_t key);
  Outcome<> set_limits(const Request& request);
  Outcome<> freeze(std::uint64_t key);
  Outcome<bool> thaw(std::uint64_t key);  // whether it was frozen
  Outcome<linux::UniqueFd> dial(std::uint64_t key, std::uint16_t port);
  // Once in the sandbox's life: the listener and the socket for names of its way out.
  Outcome<std::vector<linux::UniqueFd>> open_network(std::uint64_t key);
  Outcome<> usage(std::uint64_t key, Values& values) const;
  // Puts layers aside; the names under which they can be deleted.
  Outcome<std::vector<std::string>> discard_layers(const Request& request);

  // Takes the sandbox out and kills everything in it. The caller waits for `cell` to end and then
  // calls bury().
  std::optional<Sandbox> condemn(std::uint64_t key);
  void bury(Sandbox sandbox);
  void finish_burials() { undertaker_.finish(std::chrono::seconds(3)); }  // none can follow

  const Sandbox* find(std::uint64_t key) const;
  linux::Cgroup* find_cgroup(std::uint64_t key);  // null: it has none
  // Puts one layer aside, if it is there; the name under which it can be deleted.
  std::optional<std::string> discard_layer(std::uint64_t key, std::uint32_t number);
  std::vector<std::uint64_t> keys_after(std::uint64_t key, std::size_t count_max) const;
  NamespacesReady namespaces_ready() const;
  bool prepare_one();  // uses a quiet moment; false when there is nothing to prepare
  Privileges privileges() const { return privileges_; }
  const std::string& layer_directory() const { return layer_directory_; }

 private:
  Sandboxes(Privileges privileges, roles::Keeper& keeper, Undertaker undertaker, Grounds grounds,
            StagedTrees trees);
  void find_control_groups();
  Result<void> adopt_kept();
  void remove_leftovers();
  Outcome<Sandbox> build(const Request& request, int listener);
  Outcome<std::vector<Borrowed>> borrow(const Request& request, std::uint32_t slot) const;
  Outcome<std::shared_ptr<const Store>> create_store(const Request& request) const;
  Result<Store> lend(const Request& request, const Borrowed& lender, std::uint32_t slot) const;
  bool is_needed(std::uint64_t writer) const;
  Outcome<> check_io_limits(const SandboxLimits& limits, bool on_disk) const;
  Outcome<> set_io_limits(const Sandbox& sandbox, const SandboxLimits& limits) const;
  Result<void> deposit(const Sandbox& sandbox);
  void withdraw(const Sandbox& sandbox);
  ViewSources sources_of(Sandbox& sandbox, const Create& create) const;

  Privileges privileges_;
  roles::Keeper& keeper_;
  Undertaker undertaker_;
  Grounds grounds_;
  StagedTrees trees_;
  std::optional<linux::CgroupHierarchy> hierarchy_;
  Result<linux::IoThrottle> io_throttle_;  // or why there is none
  std::string group_prefix_;
  LayerMounts layer_mounts_ = LayerMounts::kDetached;
  std::optional<linux::SeccompFilter> filter_;
  std::optional<linux::SeccompFilter> filter_with_nesting_;
  linux::UniqueFd program_;
  linux::UniqueFd null_device_;
  linux::UniqueFd listener_place_;  // a low number; a listener stands there while its cell starts
  std::string layer_directory_ = "layers";
  std::map<std::uint64_t, Sandbox> sandboxes_;
};

}  // namespace pons::spawner
