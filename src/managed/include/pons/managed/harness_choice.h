#pragma once

#include <string>
#include <vector>

namespace pons::managed {

// Which programs may drive an agent. One says so in its metadata: {"harness": NAME, "placement":
// "brain" or "sandbox"}.
struct HarnessChoice {
  std::vector<std::string> names = {};  // beside "native"
  std::string usual = "native";         // of agents that name none
};

}  // namespace pons::managed
