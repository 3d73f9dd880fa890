#include "held_leaks.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMountinfoBytesMax = 64 << 20;
constexpr std::size_t kKeyDigits = 16;
constexpr const char* kKinds[] = {"user", "net", "mnt"};

std::string text_of(const std::string& path) {
  auto text = linux::read_file(path, kMountinfoBytesMax);
  return text ? std::move(*text) : std::string();
}

// Paths in mountinfo have blanks and the like as \ooo.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 3, value, 8).ptr == &text[i + 1] + 3) {
      plain += static_cast<char>(value);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Empty for what is not there or ends meanwhile.
std::string link_of(const std::string& path) {
  std::error_code error;
  return fs::read_symlink(path, error).string();
}

std::map<int, std::string> descriptors_of(const std::string& proc, pid_t pid) {
  std::map<int, std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(fmt::format("{}/{}/fd", proc, pid), error), end;
       !error && entry != end; entry.increment(error)) {
    if (const auto number = parse_decimal(entry->path().filename().string()))
      found.emplace(static_cast<int>(*number), link_of(entry->path().string()));
  }
  return found;
}

// "net:[4026531840]": "net"; empty for anything else.
std::string kind_of_namespace(std::string_view target) {
  for (const std::string_view kind : kKinds)
    if (target.starts_with(kind) && target.substr(kind.size()).starts_with(":["))
      return std::string(kind);
  return {};
}

// The key that a text begins with; nothing follows it but `ends`.
std::string leading_key(std::string_view text, std::string_view ends) {
  const std::string_view key = text.substr(0, kKeyDigits);
  if (key.size() < kKeyDigits || !parse_hex(key)) return {};
  if (text.size() > kKeyDigits && !ends.contains(text[kKeyDigits])) return {};
  return std::string(key);
}

// Of the roles' names only these begin with a sandbox.
std::string key_of(const KeptDescriptor& kept) {
  if (kept.role != "spawner" && kept.role != "egress") return {};
  return leading_key(kept.name, ".");
}

std::string restart_spawner(pid_t pid) {
  return fmt::format("kill -9 {}; the next spawner holds it no more", pid);
}

void find_kept(const std::string& proc, pid_t supervisor, Held& held) {
  for (KeptDescriptor& kept : held.kept) {
    kept.target = link_of(fmt::format("{}/{}/fd/{}", proc, supervisor, kept.number));
    const std::string key = key_of(kept);
    if (key.empty()) continue;
    held.leaks.push_back({kind_of_namespace(kept.target).empty() ? "descriptor" : "namespace",
                          fmt::format("{} ({}), kept for {}", kept.name, kept.target, kept.role),
                          "pons down, then pons up", key});
  }
}

void find_groups(const HeldPlace& place, const PonsProcess& process, int number,
                 const std::string& target, Held& held) {
  const auto at = target.find("/" + place.group_prefix);
  if (at == std::string::npos) return;
  const std::string key =
      leading_key(std::string_view(target).substr(at + 1 + place.group_prefix.size()), "/ ");
  if (key.empty()) return;
  held.leaks.push_back({"descriptor",
                        fmt::format("{} of {} ({}): {}", number, process.name, process.pid, target),
                        restart_spawner(held.spawner), key});
}

void find_descriptors(const HeldPlace& place, const PonsProcess& process, Held& held) {
  std::set<std::string> own;
  for (const char* kind : kKinds)
    own.insert(link_of(fmt::format("{}/{}/ns/{}", place.proc, process.pid, kind)));
  for (const auto& [number, target] : descriptors_of(place.proc, process.pid)) {
    find_groups(place, process, number, target, held);
    const std::string kind = kind_of_namespace(target);
    if (kind.empty() || own.contains(target)) continue;
    if (process.name == "spawner") {
      held.of_spawner[kind].insert(target);
      continue;
    }
    if (process.name == "supervisor" &&
        std::ranges::find(held.kept, number, &KeptDescriptor::number) != held.kept.end())
      continue;
    // None of the others has a use for one.
    held.leaks.push_back(
        {"namespace",
         fmt::format("{}, descriptor {} of {} ({})", target, number, process.name, process.pid),
         process.name == "supervisor" ? "pons down, then pons up"
                                      : fmt::format("kill -9 {}; another one starts", process.pid),
         ""});
  }
}

void find_mounts(const HeldPlace& place, Held& held) {
  const std::string stores = place.spawner_dir + "/stores/";
  for (const MountLine& line :
       parse_mounts(text_of(fmt::format("{}/{}/mountinfo", place.proc, held.spawner)))) {
    const bool is_store = line.point.starts_with(stores);
    // Views are put together unattached, and belong to the sandbox's own table.
    if (!is_store && !line.source.starts_with("view-")) continue;
    held.leaks.push_back(
        {"mount", fmt::format("{} of the spawner ({})", line.point, held.spawner),
         restart_spawner(held.spawner),
         is_store ? leading_key(std::string_view(line.point).substr(stores.size()), "-") : ""});
  }
}

// What ended sandboxes leave is closed by a process of the spawner's. Its other children copy and
// delete files with copies of all that it held when they began, and end by themselves.
std::optional<PonsProcess> find_undertaker(const std::string& proc, pid_t spawner) {
  const std::string children = text_of(fmt::format("{0}/{1}/task/{1}/children", proc, spawner));
  for (const std::string_view word : split(trim(children), ' ')) {
    const auto pid = parse_decimal(word);
    if (pid && trim(text_of(fmt::format("{}/{}/comm", proc, *pid))) == "undertaker")
      return PonsProcess{.name = "undertaker", .pid = static_cast<pid_t>(*pid)};
  }
  return std::nullopt;
}

// A fork stands on the layers of the one it was forked from, also after its end.
std::set<std::string> with_lenders(const Held& held, const std::set<std::string>& keys) {
  std::set<std::string> all = keys;
  for (const KeptDescriptor& kept : held.kept) {
    const auto words = split(kept.name, '.');
    if (words.size() == 5 && words[2] == "borrowed" && keys.contains(key_of(kept)))
      all.emplace(words[3]);
  }
  return all;
}

}  // namespace

std::vector<MountLine> parse_mounts(std::string_view table) {
  constexpr std::size_t kRoot = 3, kPoint = 4;
  std::vector<MountLine> lines;
  for (const std::string_view text : split(table, '\n')) {
    const auto fields = split(text, ' ');
    if (fields.size() <= kPoint) continue;
    MountLine line{
        .root = unescape(fields[kRoot]), .point = unescape(fields[kPoint]), .source = {}};
    // Any number of fields, a dash, the type, the source.
    const auto dash = std::find(fields.begin() + kPoint, fields.end(), "-");
    if (fields.end() - dash > 2) line.source = unescape(dash[2]);
    lines.push_back(std::move(line));
  }
  return lines;
}

Held read_held(const HeldPlace& place, const std::vector<PonsProcess>& processes,
               std::vector<KeptDescriptor> kept) {
  Held held{.kept = std::move(kept), .spawner = 0, .of_spawner = {}, .leaks = {}};
  for (const PonsProcess& process : processes) {
    if (process.name == "spawner") held.spawner = process.pid;
    if (process.name == "supervisor") find_kept(place.proc, process.pid, held);
  }
  for (const PonsProcess& process : processes)
    if (process.pid != 0) find_descriptors(place, process, held);
  if (held.spawner == 0) return held;
  if (const auto undertaker = find_undertaker(place.proc, held.spawner))
    find_descriptors(place, *undertaker, held);
  find_mounts(place, held);
  return held;
}

Leaks leaks_beside(const Held& held, const std::set<std::string>& keys) {
  const std::set<std::string> standing = with_lenders(held, keys);
  Leaks leaks;
  for (const Leak& leak : held.leaks)
    if (leak.key.empty() || !(leak.kind == "mount" ? standing : keys).contains(leak.key))
      leaks.push_back(leak);
  return leaks;
}

Namespaces nameless_namespaces(const Held& held) {
  // One under the name of an unknown sandbox is a leak already.
  Namespaces nameless = held.of_spawner;
  for (const KeptDescriptor& kept : held.kept)
    if (!key_of(kept).empty())
      if (const auto kind = nameless.find(kind_of_namespace(kept.target)); kind != nameless.end())
        kind->second.erase(kept.target);
  return nameless;
}

NamespaceCounts count_surplus(const Namespaces& nameless, const NamespaceCounts& ready) {
  NamespaceCounts surplus;
  for (const auto& [kind, all] : nameless) {
    const auto known = ready.find(kind);
    const std::size_t may_have = known == ready.end() ? 0 : known->second;
    if (all.size() > may_have) surplus.emplace(kind, all.size() - may_have);
  }
  return surplus;
}

Leaks name_surplus(const NamespaceCounts& surplus, pid_t spawner) {
  Leaks leaks;
  for (const auto& [kind, count] : surplus)
    leaks.push_back({"namespace",
                     fmt::format("{} of kind {} in the spawner ({}), neither of a sandbox nor "
                                 "ready for the next ones",
                                 count, kind, spawner),
                     restart_spawner(spawner), ""});
  return leaks;
}

}  // namespace pons::cli
