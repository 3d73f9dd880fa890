#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/sandbox/provider.h"

namespace pons::e2b {

// What the door must know of a sandbox before it lets a request in. It never changes while the
// sandbox lives, and is kept with the sandbox as its labels, so that any front finds it there.
struct Access {
  std::string sandbox;
  std::string project;
  std::string access_token;   // opens files and processes; empty: they need none
  std::string traffic_token;  // opens its other ports; empty: they are open to everyone
  std::string mask_host;      // what a server inside sees as Host, with ${PORT}; empty: "localhost"
  bool auto_resume = false;   // a request wakes it when it is paused
};

void put_labels(const Access& access, std::map<std::string, std::string>& labels);
// Marks one that was paused with its files and without its processes. Only its owner wakes it.
inline constexpr const char* kColdPauseLabel = "e2b.cold_pause";
bool is_paused_cold(const sandbox::SandboxInfo& info);
// Nothing where it is no sandbox of this protocol: other callers of the warden have theirs.
std::optional<Access> read_labels(const sandbox::SandboxInfo& info);

// Finds sandboxes for the door, and remembers them.
class Directory {
 public:
  explicit Directory(sandbox::Provider& provider) : provider_(provider) {}

  using Found = std::shared_ptr<const Access>;
  // kNotFound when there is none, or it is not of this protocol.
  Task<Result<Found>> find(std::string id);
  // The one sandbox that `is_meant` says yes to, among all that live: for requests that carry a
  // token or a signature and no id.
  Task<Result<Found>> find_where(std::function<bool(const Access&)> is_meant);
  // The same among those that were heard of before; null when none is it.
  Found find_known(const std::function<bool(const Access&)>& is_meant) const;

  void learn(const sandbox::SandboxInfo& info);
  void forget(std::string_view id);

 private:
  sandbox::Provider& provider_;
  std::map<std::string, Found, std::less<>> known_;
};

}  // namespace pons::e2b
