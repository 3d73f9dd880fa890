#include "pons/roles/profile.h"

#include <linux/capability.h>

#include <algorithm>

#include "pons/base/check.h"

namespace pons::roles {

namespace {

using linux::capability;

// Name lookup, TLS authorities and the libraries that glibc loads for them.
const std::vector<std::string_view> kResolverFiles = {
    "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",         "/etc/gai.conf",
    "/etc/host.conf",   "/etc/ssl",   "/usr/share/ca-certificates", "/usr/lib",
};

// Rules of time zones, for schedules.
constexpr std::string_view kZoneFiles = "/usr/share/zoneinfo";

// What making namespaces, mounts, cgroups and processes of other users takes. Not in it: reading
// other processes (SYS_PTRACE), modules, raw I/O, boot, time, logs, BPF, perf.
linux::CapabilitySet spawner_capabilities() {
  return capability(CAP_SYS_ADMIN) | capability(CAP_SETUID) | capability(CAP_SETGID) |
         capability(CAP_SETPCAP) | capability(CAP_SETFCAP) | capability(CAP_CHOWN) |
         capability(CAP_FOWNER) | capability(CAP_FSETID) | capability(CAP_DAC_OVERRIDE) |
         capability(CAP_NET_ADMIN) | capability(CAP_NET_BIND_SERVICE) | capability(CAP_KILL) |
         capability(CAP_SYS_CHROOT) | capability(CAP_SYS_RESOURCE);
}

std::array<Profile, kRoleCount> make_profiles() {
  using enum Role;
  using enum Syscalls;
  return {{
      {.role = kFront,
       .name = "front",
       .purpose = "parses the public internet; holds no secret but its TLS key",
       .may_dial = {kBrain, kGateway, kEgress, kWarden},
       .network = Network::kEmptyNamespace,  // it serves a listener it was given and can open
                                             // nothing itself
       .files = Files::kLandlock,
       .read_only = {},
       .syscalls = {kRun, kConverse},
       .capabilities = 0},
      {.role = kBrain,
       .name = "brain",
       .purpose = "sessions, reasoning, memory, schedules; no hands and no keys",
       .may_dial = {kGateway, kEgress, kWarden},
       .network = Network::kEmptyNamespace,
       .files = Files::kLandlock,
       .read_only = {kZoneFiles},
       .syscalls = {kRun, kConverse, kFiles},
       .capabilities = 0},
      {.role = kGateway,
       .name = "gateway",
       .purpose = "model calls and outgoing channels; holds provider keys",
       .may_dial = {},
       .network = Network::kHost,
       .files = Files::kLandlock,
       .read_only = kResolverFiles,
       .syscalls = {kRun, kConverse, kFiles, kInternet},
       .capabilities = 0},
      {.role = kEgress,
       .name = "egress",
       .purpose = "the only way out of a sandbox; holds the vault",
       .may_dial = {kGateway, kBrain},  // gateway.pons.internal and tools.pons.internal
       .network = Network::kHost,
       .files = Files::kLandlock,
       .read_only = kResolverFiles,
       .syscalls = {kRun, kConverse, kFiles, kInternet},
       .capabilities = 0},
      {.role = kWarden,
       .name = "warden",
       .purpose = "pool, state and jobs of sandboxes",
       .may_dial = {kEgress, kSpawner},
       .network = Network::kEmptyNamespace,
       .files = Files::kLandlock,
       .read_only = {},
       .syscalls = {kRun, kConverse, kFiles},
       .capabilities = 0},
      {.role = kSpawner,
       .name = "spawner",
       .purpose = "makes namespaces, mounts and cgroups for the warden",
       .may_dial = {},
       .network = Network::kEmptyNamespace,
       .files = Files::kMinimalMounts,
       .read_only = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache"},
       .syscalls = {},
       .capabilities = spawner_capabilities()},
  }};
}

}  // namespace

const std::array<Profile, kRoleCount>& profiles() {
  static const std::array<Profile, kRoleCount> kTable = make_profiles();
  return kTable;
}

const Profile& profile_of(Role role) {
  const Profile& profile = profiles()[static_cast<std::size_t>(role)];
  CHECK(profile.role == role);
  return profile;
}

std::optional<Role> find_role(std::string_view name) {
  for (const Profile& profile : profiles())
    if (profile.name == name) return profile.role;
  return std::nullopt;
}

linux::CapabilitySet supervisor_capabilities() {
  return spawner_capabilities();
}

}  // namespace pons::roles
