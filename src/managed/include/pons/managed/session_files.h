#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pons::managed {

struct Repository {
  std::string url;
  std::string branch = {};  // one of them, or neither: the repository's own choice
  std::string commit = {};

  bool operator==(const Repository&) const = default;
};

// A file that a session's machine is to have; or a repository, in a folder.
struct SessionFile {
  std::string resource;
  std::string file;  // empty: it is a repository
  std::string path;
  std::optional<Repository> repository = std::nullopt;

  bool operator==(const SessionFile&) const = default;
};

struct SessionFiles {
  std::vector<SessionFile> wanted;
  bool had_others = false;  // that its machine may still have
};

// Of machines: what is in it is ours, and no resource is put there.
inline constexpr std::string_view kMachineNotes = "/var/lib/pons";

}  // namespace pons::managed
