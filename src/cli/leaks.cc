#include "leaks.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ranges>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "held_leaks.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"
#include "terminal.h"

namespace pons::cli {

namespace {

namespace fs = std::filesystem;

// Sandboxes come and go: only what stays unknown for all of these looks is a leak.
constexpr int kLooks = 6;
constexpr int kCountsMin = 3;  // of the looks; fewer prove nothing about what is only counted
constexpr useconds_t kLookMicroseconds = 200'000;
constexpr std::size_t kMountinfoBytesMax = 64 << 20;

struct Place {
  std::string state_dir;  // without links, as the kernel names it
  std::string spawner_dir;
  std::string group_prefix;
  std::vector<std::string> group_homes;
};

// An empty list for what is not there or ends meanwhile.
std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  return names;
}

std::string text_of(const std::string& path) {
  auto text = linux::read_file(path, kMountinfoBytesMax);
  return text ? std::move(*text) : std::string();
}

Result<Place> find_place(const std::string& state_dir) {
  std::error_code error;
  Place place{.state_dir = fs::canonical(state_dir, error).string()};
  if (error) return os_error("look for leaks", state_dir, error.value());
  place.spawner_dir = place.state_dir + "/spawner";
  const std::string instance = TRY(linux::read_file(place.spawner_dir + "/instance"));
  place.group_prefix = fmt::format("pons-{}-", trim(instance));
  // Absent where there are no control groups; the first line is their version.
  const std::string homes = text_of(place.spawner_dir + "/cgroup-home");
  for (const std::string_view line : split(trim(homes), '\n') | std::views::drop(1))
    place.group_homes.emplace_back(line);
  return place;
}

void find_groups(const Place& place, Leaks& found) {
  for (const std::string& home : place.group_homes)
    for (const std::string& name : names_in(home)) {
      if (!name.starts_with(place.group_prefix)) continue;
      const std::string path = home + "/" + name;
      found.push_back({"control group", path, fmt::format("end its processes, then rmdir {}", path),
                       name.substr(place.group_prefix.size())});
    }
}

void find_sockets(const Place& place, Leaks& found) {
  const std::string directory = place.spawner_dir + "/cells";
  for (const std::string& name : names_in(directory)) {
    const std::string path = directory + "/" + name;
    found.push_back({"socket file", path, "rm " + path, name});
  }
}

// By its group and not by its user: the users of sandboxes are the same for every Pons of a host.
void find_processes(const Place& place, Leaks& found) {
  for (const std::string& pid : names_in("/proc")) {
    if (!parse_decimal(pid)) continue;
    const std::string groups = text_of("/proc/" + pid + "/cgroup");
    const auto at = groups.find("/" + place.group_prefix);
    if (at == std::string::npos) continue;
    const auto begin = at + 1 + place.group_prefix.size();
    const std::string name(trim(text_of("/proc/" + pid + "/comm")));
    found.push_back({"process", fmt::format("{} ({})", pid, name), "kill -9 " + pid,
                     groups.substr(begin, groups.find_first_of("/\n", begin) - begin)});
  }
}

// The state directory itself may well be a mount; Pons' own are made in namespaces of their own.
void find_mounts(const Place& place, Leaks& found) {
  const std::string below = place.state_dir + "/";
  for (const char* table : {"/proc/1/mountinfo", "/proc/self/mountinfo"})
    for (const MountLine& line : parse_mounts(text_of(table))) {
      if (!line.point.starts_with(below) && !line.root.starts_with(below)) continue;
      Leak leak{"mount", line.point, "umount -l " + line.point, ""};
      if (std::ranges::find(found, leak) == found.end()) found.push_back(std::move(leak));
    }
}

bool is_lock_held(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return false;
  return text_of("/proc/locks").contains(fmt::format(":{} ", status.st_ino));
}

void find_files(const Place& place, Leaks& found) {
  const auto add = [&](const std::string& folder, std::string_view part, const std::string& fix) {
    for (const std::string& name : names_in(place.spawner_dir + folder)) {
      if (!name.contains(part)) continue;
      const std::string path = place.spawner_dir + folder + "/" + name;
      found.push_back({"half-made file", path, fix.empty() ? "rm " + path : fix, ""});
    }
  };
  for (const char* const part : {"copy-", ".tmp-"}) add("/images", part, "");
  // Whoever makes a template holds the lock.
  if (!is_lock_held(place.spawner_dir + "/layers/.lock"))
    add("/layers", ".tmp-", "pons template gc");
}

std::vector<std::string> find_disks(const Place& place) {
  std::vector<std::string> devices;
  for (const std::string& name : names_in("/sys/block"))
    if (text_of("/sys/block/" + name + "/loop/backing_file")
            .starts_with(place.spawner_dir + "/images/"))
      devices.push_back("/dev/" + name);
  return devices;
}

// Only of one that runs: descriptors end with their processes.
Result<Held> ask_held(const Place& place) {
  const Json status = TRY(ask(place.state_dir, "supervisor", "GET", "/status"));
  std::vector<PonsProcess> processes = {{"supervisor", status.value("pid", pid_t{0})}};
  for (const Json& role : status.value("roles", Json::array()))
    processes.push_back({role.value("role", ""), role.value("pid", pid_t{0})});
  const Json answer = TRY(ask(place.state_dir, "supervisor", "GET", "/kept"));
  std::vector<KeptDescriptor> kept;
  for (const Json& one : answer.value("kept", Json::array()))
    kept.push_back({one.value("role", ""), one.value("name", ""), one.value("number", -1), ""});
  return read_held(
      {.proc = "/proc", .spawner_dir = place.spawner_dir, .group_prefix = place.group_prefix},
      processes, std::move(kept));
}

// What the running Pons may have.
struct Known {
  std::set<std::string> keys;
  std::size_t disks_max = 0;
  NamespaceCounts ready;
};

Result<Known> ask_known(const std::string& state_dir) {
  Known known;
  const Json answer = TRY(ask(state_dir, "warden", "GET", "/leaks/known"));
  const auto keys = answer.find("keys");
  if (keys == answer.end() || !keys->is_array())
    return make_error(ErrorCode::kInternal, "look for leaks", "the warden's answer has no keys");
  for (const Json& key : *keys)
    if (key.is_string()) known.keys.insert(key.get<std::string>());
  known.disks_max = answer.value("disks_max", std::size_t{0});
  known.ready = answer.value("namespaces_ready", NamespaceCounts());
  return known;
}

struct Look {
  bool running = false;
  Leaks leaks;
  pid_t spawner = 0;
  // Of its namespaces. Absent when it made or used some meanwhile: then nothing can be counted.
  std::optional<NamespaceCounts> surplus;
};

Result<Look> look(const Place& place) {
  Look seen;
  Leaks& found = seen.leaks;
  find_groups(place, found);
  find_sockets(place, found);
  find_processes(place, found);
  find_mounts(place, found);
  find_files(place, found);
  const std::vector<std::string> disks = find_disks(place);
  seen.running = ask(place.state_dir, "supervisor", "GET", "/status").has_value();
  const Known before = seen.running ? TRY(ask_known(place.state_dir)) : Known();
  const Held held = seen.running ? TRY(ask_held(place)) : Held();
  // Asked afterwards: what was made meanwhile is known then. Where nobody runs nothing may be left.
  const Known known = seen.running ? TRY(ask_known(place.state_dir)) : Known();
  std::erase_if(
      found, [&](const Leak& leak) { return !leak.key.empty() && known.keys.contains(leak.key); });
  // Nobody outside can tell whose disk is whose; their number says that one is too many.
  if (disks.size() > known.disks_max)
    found.push_back({"loop device", "more of them than sandboxes with a disk",
                     fmt::format("losetup -d {}; those in use stay", fmt::join(disks, " ")), ""});
  for (Leak& leak : leaks_beside(held, known.keys)) found.push_back(std::move(leak));
  seen.spawner = held.spawner;
  if (before.ready == known.ready && before.keys == known.keys)
    seen.surplus = count_surplus(nameless_namespaces(held), known.ready);
  return seen;
}

// The smaller number of each kind.
void keep_smaller(NamespaceCounts& counts, const NamespaceCounts& others) {
  for (auto& [kind, count] : counts) {
    const auto other = others.find(kind);
    count = other == others.end() ? 0 : std::min(count, other->second);
  }
  std::erase_if(counts, [](const auto& entry) { return entry.second == 0; });
}

// What every look has shown.
Result<Leaks> find_leaks(const Place& place, bool& running) {
  Look all = TRY(look(place));
  int counted = all.surplus ? 1 : 0;
  const auto is_clean = [&] { return all.leaks.empty() && all.surplus && all.surplus->empty(); };
  for (int i = 1; i < kLooks && !is_clean(); ++i) {
    usleep(kLookMicroseconds);
    const Look again = TRY(look(place));
    std::erase_if(all.leaks, [&](const Leak& leak) {
      return std::ranges::find(again.leaks, leak) == again.leaks.end();
    });
    all.running = again.running;
    all.spawner = again.spawner;
    if (!again.surplus) continue;
    ++counted;
    if (all.surplus)
      keep_smaller(*all.surplus, *again.surplus);
    else
      all.surplus = again.surplus;
  }
  running = all.running;
  if (counted >= kCountsMin)
    for (Leak& leak : name_surplus(*all.surplus, all.spawner)) all.leaks.push_back(std::move(leak));
  return std::move(all.leaks);
}

void print_leaks(const Leaks& leaks, bool running) {
  if (leaks.empty()) {
    fmt::print("{}\n", paint(running ? "Nothing is left over: all there is belongs to a sandbox."
                                     : "Pons does not run, and nothing is left of it.",
                             Tone::kGood));
    return;
  }
  fmt::print("{}\n", paint(running ? "These belong to no sandbox of the running Pons:"
                                   : "Pons does not run, and these are left of it:",
                           Tone::kBad));
  std::vector<std::vector<Cell>> rows;
  for (const Leak& leak : leaks)
    rows.push_back({"  " + leak.kind, {leak.what, Tone::kStrong}, {leak.fix, Tone::kDim}});
  print_table(rows);
  fmt::print(
      "\nA start of Pons (`pons down`, `pons up`) removes groups, processes and sockets too.\n");
}

}  // namespace

int run_leaks(const Common& common) {
  const auto loaded = load_config(common);
  if (!loaded) return 1;
  if (geteuid() != 0) {
    print_error("doctor --leaks looks into every process and mount of the host: run it as root");
    return 1;
  }
  const auto place = find_place(loaded->config.state_dir);
  bool running = false;
  const auto leaks = place ? find_leaks(*place, running) : Result<Leaks>(place.error());
  if (!leaks) {
    print_error(leaks.error().describe());
    return 1;
  }
  if (common.json) {
    Json list = Json::array();
    for (const Leak& leak : *leaks)
      list.push_back({{"kind", leak.kind}, {"what", leak.what}, {"fix", leak.fix}});
    fmt::print("{}\n", dump_json({{"running", running}, {"leaks", std::move(list)}}));
  } else {
    print_leaks(*leaks, running);
  }
  return leaks->empty() ? 0 : 1;
}

}  // namespace pons::cli
