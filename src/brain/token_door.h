#pragma once

#include "key_feed.h"
#include "pons/managed/session_tokens.h"
#include "routes.h"

namespace pons::brain {

// Tokens of workers among the keys that the front knows: they open sessions, and the front says of
// whoever shows one which session it is for.
class KeyFeedDoor final : public managed::TokenDoor {
 public:
  // `bell`: to other brains on the same store; null: there are none.
  KeyFeedDoor(linux::Loop& loop, KeyFeed& feed, store::Bell* bell = nullptr)
      : loop_(loop), feed_(feed), bell_(bell) {}

  void open(const managed::SessionToken& token) override { feed_.add(key_of(token)); }
  void close(std::string_view id) override { feed_.remove(id); }
  void replace(const std::vector<managed::SessionToken>& good) override {
    std::vector<ApiKey> keys;
    for (const managed::SessionToken& token : good) keys.push_back(key_of(token));
    feed_.replace_workers(keys);
  }
  void tell_others() override {
    if (bell_ != nullptr) bell_->ring(std::string(kKeysTopic));
  }
  Task<> wait_until_heard() override {
    constexpr Duration kHearingTime = std::chrono::milliseconds(500);
    co_await feed_.wait_until_heard(loop_.now() + kHearingTime);
  }

 private:
  static ApiKey key_of(const managed::SessionToken& token) {
    return {.id = token.id,
            .project_id = token.project,
            .name = "worker",
            .hash = token.hash,
            .scopes = {"sessions", "agents"},
            .created_ms = 0,
            .revoked_ms = std::nullopt,
            .session = token.session + " " + token.work};
  }

  linux::Loop& loop_;
  KeyFeed& feed_;
  store::Bell* bell_;
};

}  // namespace pons::brain
