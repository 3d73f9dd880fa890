#pragma once

#include <string>
#include <vector>

namespace pons::linux {

// What this host can do for this process, now. Each is found by trying and not by version numbers:
// distributions move features both ways, and containers take them away.
struct HostFeatures {
  std::string kernel_release;
  int kernel_major = 0;
  int kernel_minor = 0;
  int cgroup_version = 0;  // 0: none
  std::vector<std::string> cgroup_controllers;
  bool cgroups_writable = false;  // groups can be made below this process's own
  bool user_namespaces = false;   // with capabilities inside, which some hosts withhold
  bool nested_user_namespaces = false;
  int landlock_abi = 0;
  bool seccomp = false;
  bool nftables = false;  // in a network namespace of its own
  bool kvm = false;
  bool overlayfs = false;        // in a mount namespace of its own
  bool detached_layers = false;  // overlayfs takes layers that are mounted nowhere
  bool idmapped_tmpfs = false;
  bool loop_devices = false;
  std::string io_limits_missing;  // why devices cannot be limited in speed; empty: they can
};

// Harmless, and works without privileges. Forks a few short-lived children: call it at start.
HostFeatures probe_host();

}  // namespace pons::linux
