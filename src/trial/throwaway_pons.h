#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/http/client.h"
#include "pons/linux/child.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/remote.h"
#include "pons/trial/trial.h"

namespace pons::trial {

// A directory that is gone with its owner.
struct DirectoryTraits {
  using Value = std::string;
  static std::string empty() { return {}; }
  static void close(const std::string& path) noexcept;
};
using TemporaryDirectory = UniqueHandle<DirectoryTraits>;

// A Pons on a state directory of its own, for as long as this lives; reached as its operator does.
class ThrowawayPons {
 public:
  // `settings`: as in pons.yaml, but for where it listens and keeps its state.
  static Result<std::unique_ptr<ThrowawayPons>> start(linux::Loop& loop, const Order& order,
                                                      Json settings);
  ~ThrowawayPons();  // in order, or by force after a minute
  ThrowawayPons(const ThrowawayPons&) = delete;
  ThrowawayPons& operator=(const ThrowawayPons&) = delete;

  // Once it is ready, with these templates, whose layers stand in that directory.
  Task<Result<void>> make_ready(std::string layers, std::vector<sandbox::TemplateInfo> templates);

  Task<Result<Json>> ask(std::string role, std::string method, std::string target,
                         Json body = nullptr);
  http::Client& client_of(const std::string& role);
  sandbox::Provider& sandboxes() { return *sandboxes_; }
  // Kills a role; it has been started again when this returns.
  Task<Result<void>> restart_role(std::string role);

  // What egress has refused so far; lines of JSON.
  Result<std::vector<Json>> decisions() const;
  // Paths of what was written in a sandbox, below its root and without a slash at the beginning.
  Task<Result<std::vector<std::string>>> written_files(std::string sandbox);

 private:
  ThrowawayPons(linux::Loop& loop, TemporaryDirectory directory, linux::ChildProcess child);
  Task<Result<Json>> status();
  std::string log() const;

  linux::Loop& loop_;
  TemporaryDirectory directory_;
  linux::ChildProcess child_;
  std::map<std::string, std::unique_ptr<http::Client>> clients_;
  std::unique_ptr<sandbox::RemoteProvider> sandboxes_;
  int snapshots_ = 0;
};

}  // namespace pons::trial
