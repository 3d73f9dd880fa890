#pragma once

#include <string>
#include <vector>

#include "pons/linux/loop.h"
#include "pons/store/store.h"

namespace pons::store::postgres {

// Something that is asked of the server. Shared by whoever asks, who may leave, and whoever has it.
struct Request {
  explicit Request(linux::Loop& loop) : answered(loop) {}

  void answer(Result<std::vector<Outcome>> what) {
    result = std::move(what);
    answered.set();
  }

  Transaction statements;
  std::string script;       // instead of statements: a text of our own, which may be anything
  bool may_repeat = false;  // it changes nothing
  bool is_counted = false;  // among those of a lane
  std::size_t bytes = 0;
  int tries = 0;
  Result<std::vector<Outcome>> result;
  linux::Event answered;
};

}  // namespace pons::store::postgres
