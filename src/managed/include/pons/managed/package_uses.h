#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pons/base/clock.h"
#include "pons/managed/documents.h"
#include "pons/managed/package_set.h"
#include "pons/store/store.h"

namespace pons::managed {

// Which environments and sessions want which packages.
class PackageUses {
 public:
  PackageUses(store::Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  // What goes with an environment that is made or changed.
  static std::vector<store::Statement> of_environment(const Document& environment);
  // kLimit: the project's environments want too many different sets besides this one's.
  Task<Result<void>> check_room(std::string project, std::string environment,
                                const PackageSet& set);
  // Before the session is made, so that it is never without.
  Task<Result<void>> keep_for_session(std::string session, std::string project, PackageSet set);

  // Those that environments want which are not archived, each once.
  Task<Result<std::vector<PackageSet>>> wanted();
  // Digests of those, and of what sessions were made with that still live.
  Task<Result<std::set<std::string>>> in_use();
  Task<Result<std::optional<PackageSet>>> find(std::string digest);
  // Forgets those of whom there is nothing any more.
  Task<Result<void>> sweep();

 private:
  std::int64_t now_ms() const;

  store::Store& store_;
  const Clock& clock_;
};

}  // namespace pons::managed
