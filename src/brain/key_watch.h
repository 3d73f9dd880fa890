#pragma once

#include <functional>

#include "api_keys.h"
#include "key_feed.h"
#include "pons/linux/loop.h"
#include "pons/store/bell.h"
#include "projects.h"

namespace pons::brain {

// Keys that other brains on the same store make and revoke, and limits that they set: read again
// when they say so, and now and then in case that was not heard.
class KeyWatch {
 public:
  using Look = std::function<Task<Result<void>>()>;
  // All must outlive it. `look_at_workers`: at tokens that are keys for a while.
  KeyWatch(linux::Loop& loop, ApiKeys& keys, Projects& projects, KeyFeed& feed,
           const store::Bell& bell, Look look_at_workers)
      : loop_(loop),
        keys_(keys),
        projects_(projects),
        feed_(feed),
        bell_(bell),
        look_at_workers_(std::move(look_at_workers)),
        woken_(loop) {}

  void look() { woken_.set(); }
  // Runs as long as the process.
  Task<> keep_looking();

 private:
  Task<Result<void>> look_once();

  linux::Loop& loop_;
  ApiKeys& keys_;
  Projects& projects_;
  KeyFeed& feed_;
  const store::Bell& bell_;
  Look look_at_workers_;
  linux::Event woken_;
};

}  // namespace pons::brain
