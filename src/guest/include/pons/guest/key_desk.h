#pragma once

#include <cstdint>
#include <string>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/session/event.h"

namespace pons::guest {

struct KeyWish {
  std::string project;
  std::string agent;
  std::string session;
  std::string sandbox;         // where it is good
  std::string model;           // for which
  std::int64_t cost_nano = 0;  // at the most; 0: no limit of its own
  std::int64_t tokens = 0;
};
struct ModelKey {
  std::string id;
  std::string text;
};

// Where keys come from with which guests call models.
class KeyDesk {
 public:
  virtual ~KeyDesk() = default;
  virtual Task<Result<ModelKey>> open(KeyWish wish) = 0;
  // All that was used with it so far.
  virtual Task<Result<session::Usage>> used(std::string id) = 0;
  // Well, too, when there is none.
  virtual Task<Result<void>> close(std::string id) = 0;
};

}  // namespace pons::guest
