#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pons::cli {

struct Leak {
  std::string kind;  // for programs
  std::string what;  // its path or number
  std::string fix;
  std::string key;  // of the sandbox; empty: a leak whoever is known
  bool operator==(const Leak& other) const { return kind == other.kind && what == other.what; }
};
using Leaks = std::vector<Leak>;

struct MountLine {
  std::string root;
  std::string point;
  std::string source;
};
// Of a table as /proc/PID/mountinfo has it; lines of another shape are left out.
std::vector<MountLine> parse_mounts(std::string_view table);

// ---- What the processes of Pons hold for sandboxes, as /proc shows it.

struct PonsProcess {
  std::string name;  // of its role, or "supervisor"
  pid_t pid = 0;
};

// What the supervisor keeps for the next life of a role.
struct KeptDescriptor {
  std::string role;
  std::string name;
  int number = -1;     // in the supervisor
  std::string target;  // as the link of its number says
};

// The kernel's word for the kind of a namespace ("net"), and the namespaces: "net:[4026531840]".
using Namespaces = std::map<std::string, std::set<std::string>>;
using NamespaceCounts = std::map<std::string, std::size_t>;

struct Held {
  std::vector<KeptDescriptor> kept;
  pid_t spawner = 0;
  Namespaces of_spawner;  // but those that it lives in
  Leaks leaks;            // those with a key are none when the key is known
};

struct HeldPlace {
  std::string proc;          // "/proc"
  std::string spawner_dir;   // without links
  std::string group_prefix;  // of the control groups of this Pons' sandboxes
};

// `kept` without targets.
Held read_held(const HeldPlace& place, const std::vector<PonsProcess>& processes,
               std::vector<KeptDescriptor> kept);

// The leaks but those of known sandboxes, and of what these stand on.
Leaks leaks_beside(const Held& held, const std::set<std::string>& keys);

// Namespaces that the spawner holds and that are kept for no sandbox. Some of them are ready for
// the next ones; nobody outside can tell which.
Namespaces nameless_namespaces(const Held& held);

// By how many they are more than are ready; a kind of which there are not is absent.
NamespaceCounts count_surplus(const Namespaces& nameless, const NamespaceCounts& ready);
Leaks name_surplus(const NamespaceCounts& surplus, pid_t spawner);

}  // namespace pons::cli
