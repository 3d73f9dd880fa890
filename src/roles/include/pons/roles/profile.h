#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "pons/linux/capabilities.h"
#include "pons/linux/landlock.h"

namespace pons::roles {

enum class Role : std::uint8_t { kFront, kBrain, kGateway, kEgress, kWarden, kSpawner };
inline constexpr std::size_t kRoleCount = 6;

// System calls by what they are for; profiles.cc spells out each group.
enum class Syscalls : std::uint8_t {
  kRun,       // memory, time, threads, the event loop: what any role needs to live
  kConverse,  // accept, send and receive on sockets it was given; pairs of Unix sockets; passing
              // descriptors
  kFiles,     // open, read, write, rename below what Landlock grants
  kInternet,  // create TCP and UDP sockets and connect them
};

enum class Network : std::uint8_t { kEmptyNamespace, kHost };

// How much of the file system is left: what Landlock grants, or a mount namespace that holds only
// what is named.
enum class Files : std::uint8_t { kLandlock, kMinimalMounts };

// Everything a role may do, in one row of profiles.cc. What is not here is refused by the kernel.
struct Profile {
  Role role;
  std::string_view name;
  std::string_view purpose;
  std::vector<Role> may_dial;  // whom it can open connections to; nobody else can be reached
  Network network;
  Files files;
  std::vector<std::string_view>
      read_only;  // beside its own state directory, which it may always write
  std::vector<Syscalls>
      syscalls;  // empty: the spawner's deny-list applies instead of an allow-list
  linux::CapabilitySet capabilities;  // none for all but the spawner
};

const std::array<Profile, kRoleCount>& profiles();
const Profile& profile_of(Role role);
std::optional<Role> find_role(std::string_view name);
inline std::string_view name_of(Role role) {
  return profile_of(role).name;
}

// The supervisor keeps these capabilities, which are the spawner's and what starting the roles
// takes.
linux::CapabilitySet supervisor_capabilities();

// When Pons runs as root, each role becomes a user of its own. The range is one that neither Debian
// nor systemd assigns.
inline constexpr uid_t kRoleUidFirst = 1'879'100'000;
constexpr uid_t uid_of(Role role) {
  return kRoleUidFirst + static_cast<uid_t>(role);
}

}  // namespace pons::roles
