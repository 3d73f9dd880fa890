#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/http/router.h"
#include "pons/managed/vault_finder.h"
#include "pons/session/sessions.h"
#include "pons/store/store.h"

namespace pons::managed {

struct Objects;

// A file that a session's machine is to have.
struct SessionFile {
  std::string resource;
  std::string file;
  std::string path;
};
// What an agent leaves in this folder of its machine becomes files of its session.
inline constexpr std::string_view kOutputsFolder = "/mnt/session/outputs";

// The Managed Agents API on top of a store and of sessions, for clients that the front has let in.
// What it is given outlives it.
class ManagedApi {
 public:
  ManagedApi(store::Store& store, const Clock& clock, session::Sessions& sessions);
  ~ManagedApi();
  ManagedApi(const ManagedApi&) = delete;
  ManagedApi& operator=(const ManagedApi&) = delete;

  // Without it there are no vaults.
  void use_vaults(VaultFinder finder);
  // Whether the session is one of this API.
  static bool is_session(std::string_view id);
  Task<Result<std::vector<SessionFile>>> files_of(std::string project, std::string session);
  // All below /v1.
  std::vector<http::Route> routes();

 private:
  std::unique_ptr<Objects> objects_;
  session::Sessions& sessions_;
};

}  // namespace pons::managed
