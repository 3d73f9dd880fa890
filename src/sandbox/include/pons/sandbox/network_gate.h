#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/fd.h"
#include "pons/sandbox/provider.h"

namespace pons::sandbox {

// Who stands outside a sandbox's network and carries what may leave it.
class NetworkGate {
 public:
  virtual ~NetworkGate() = default;

  struct Attachment {
    std::uint64_t key = 0;
    std::string id;
    NetworkRequest network;
    linux::UniqueFd listener;  // every TCP connection of the sandbox arrives here
    linux::UniqueFd names;     // and every question for a name here
  };
  // The variables that the sandbox gets: stand-ins for its credentials, and where programs find the
  // authorities they are to trust. Until this has succeeded nothing answers inside.
  virtual Task<Result<std::map<std::string, std::string>>> attach(Attachment attachment) = 0;
  virtual void detach(std::uint64_t key) = 0;
  // Whoever else is attached was left by a provider that was killed.
  virtual void keep_only(std::vector<std::uint64_t> keys) = 0;
};

}  // namespace pons::sandbox
