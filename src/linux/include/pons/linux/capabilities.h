#pragma once

#include <sys/types.h>

#include <cstdint>

#include "pons/base/result.h"

namespace pons::linux {

using CapabilitySet = std::uint64_t;

constexpr CapabilitySet capability(int number) {  // CAP_* of <linux/capability.h>
  return CapabilitySet{1} << number;
}

struct ProcessCapabilities {
  CapabilitySet effective = 0;
  CapabilitySet permitted = 0;
  CapabilitySet inheritable = 0;
  CapabilitySet bounding = 0;
  CapabilitySet ambient = 0;
};
Result<ProcessCapabilities> current_capabilities();

// Cuts all five sets of the calling thread to `keep` and reads them back. What is in `keep` but was
// never held stays unheld. Call it before the first thread: capabilities belong to threads.
//
// Without CAP_SETPCAP the bounding set cannot be cut. That is an error, unless no_new_privs is on:
// then no exec can use what the bounding set still allows.
Result<void> keep_only_capabilities(CapabilitySet keep);

// Becomes another user for good, with no supplementary groups. Capabilities end with uid 0 except
// for `keep`, which stay permitted and effective. Clears PR_SET_PDEATHSIG.
Result<void> become_user(uid_t uid, gid_t gid, CapabilitySet keep = 0);

}  // namespace pons::linux
