#pragma once

#include <string>

#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/linux/fd.h"

namespace pons::supervisor {

// Pons' state on disk: one folder per role, private to that role's user; `run/` with the control
// sockets; the admin token. Holding the object is holding the lock: one Pons per state directory.
class StateDir {
 public:
  // Creates what is missing. Says who holds the lock when someone does, and what to do when it
  // cannot write.
  static Result<StateDir> open(const std::string& path);

  const std::string& path() const { return path_; }
  linux::UniqueFd release_lock() { return std::move(lock_); }
  std::string admin_token_path() const { return path_ + "/admin.token"; }
  // The token that stands in the file, made on the first start.
  Result<Secret> ensure_admin_token() const;

 private:
  StateDir(std::string path, linux::UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  linux::UniqueFd lock_;
};

}  // namespace pons::supervisor
