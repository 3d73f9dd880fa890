#pragma once

#include "api_keys.h"
#include "key_feed.h"
#include "pons/linux/loop.h"
#include "projects.h"

namespace pons::brain {

// Keys that other brains on the same store make and revoke, and limits that they set: read again
// when they say so, and now and then in case that was not heard.
class KeyWatch {
 public:
  // All must outlive it.
  KeyWatch(linux::Loop& loop, ApiKeys& keys, Projects& projects, KeyFeed& feed)
      : loop_(loop), keys_(keys), projects_(projects), feed_(feed), woken_(loop) {}

  void look() { woken_.set(); }
  // Runs as long as the process.
  Task<> keep_looking();

 private:
  Task<Result<void>> look_once();

  linux::Loop& loop_;
  ApiKeys& keys_;
  Projects& projects_;
  KeyFeed& feed_;
  linux::Event woken_;
};

}  // namespace pons::brain
