#pragma once

#include "key_feed.h"
#include "pons/managed/session_tokens.h"

namespace pons::brain {

// Tokens of workers among the keys that the front knows: they open sessions, and the front says of
// whoever shows one which session it is for.
class KeyFeedDoor final : public managed::TokenDoor {
 public:
  KeyFeedDoor(linux::Loop& loop, KeyFeed& feed) : loop_(loop), feed_(feed) {}

  void open(const managed::SessionToken& token) override {
    feed_.add({.id = token.id,
               .project_id = token.project,
               .name = "worker",
               .hash = token.hash,
               .scopes = {"sessions", "agents"},
               .created_ms = 0,
               .revoked_ms = std::nullopt,
               .session = token.session + " " + token.work});
  }
  void close(std::string_view id) override { feed_.remove(id); }
  Task<> wait_until_heard() override {
    constexpr Duration kHearingTime = std::chrono::milliseconds(500);
    co_await feed_.wait_until_heard(loop_.now() + kHearingTime);
  }

 private:
  linux::Loop& loop_;
  KeyFeed& feed_;
};

}  // namespace pons::brain
