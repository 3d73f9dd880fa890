#pragma once

#include <chrono>
#include <string>

#include "pons/base/json.h"
#include "pons/e2b/control_plane.h"

namespace pons::e2b {

// One request to the control plane, let in.
struct ControlPlane::Request {
  http::Exchange& exchange;
  Caller caller;
  std::string word;  // of the path
  bool old = false;  // by the paths of older SDKs, whose defaults differ

  // An object; an empty body is an empty one.
  Task<Result<Json>> read_json();

  static std::int64_t now_unix_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace pons::e2b
