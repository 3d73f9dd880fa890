#include "privileges.h"

#include <unistd.h>

#include "pons/linux/namespace.h"

namespace pons::spawner {

Result<Privileges> take_privileges() {
  if (geteuid() == 0) return Privileges::kHostRoot;
  const linux::IdMap user{.inside = 0, .outside = geteuid(), .count = 1};
  const linux::IdMap group{.inside = 0, .outside = getegid(), .count = 1};
  auto entered = linux::unshare_namespaces({linux::NamespaceKind::kUser});
  if (entered) entered = linux::write_id_maps(getpid(), {&user, 1}, {&group, 1});
  if (!entered)
    return os_error("make sandboxes without root",
                    "this host gives users no namespaces; allow them, or start Pons as root",
                    entered.error().os_error);
  return Privileges::kOwnNamespace;
}

}  // namespace pons::spawner
