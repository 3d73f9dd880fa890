#pragma once

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>

#include "cell_client.h"
#include "forked.h"
#include "pons/linux/namespace.h"
#include "pons/roles/keeper.h"
#include "sandboxes.h"

namespace pons::spawner {

// A spawner without its confinement, in a mount and network namespace of its own, with the host
// template: what makes sandboxes, driven directly. Use it inside in_forked_child.
class SandboxHost {
 public:
  explicit SandboxHost(LayerMounts layer_mounts = probe_layer_mounts());
  ~SandboxHost();
  SandboxHost(const SandboxHost&) = delete;
  SandboxHost& operator=(const SandboxHost&) = delete;

  bool is_ready() const { return sandboxes_ != nullptr; }
  Sandboxes& sandboxes() { return *sandboxes_; }

  static Request request(RequestKind kind, std::uint64_t key);
  // A claimed sandbox with a connection to its cell; null when one of the steps failed.
  std::unique_ptr<cell::CellClient> create(std::uint64_t key, std::uint32_t flags = 0);
  std::unique_ptr<cell::CellClient> create(const Request& request);
  Outcome<> switch_view(std::uint64_t key, std::uint32_t upper, std::vector<std::uint32_t> layers,
                        bool must_seal);
  void destroy(std::uint64_t key);

 private:
  linux::ScratchDirectory scratch_;
  pid_t supervisor_ = -1;
  linux::UniqueFd line_;
  std::unique_ptr<roles::Keeper> keeper_;
  std::unique_ptr<Sandboxes> sandboxes_;
};

// The output of a line of shell, or what went wrong in brackets.
std::string shell(cell::CellClient& cell, const std::string& line, const std::string& user = "");

}  // namespace pons::spawner
