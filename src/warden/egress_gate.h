#pragma once

#include "pons/http/client.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/network_gate.h"

namespace pons::warden {

// Hands the sockets of sandboxes to the egress role and tells it who has ended.
class EgressGate final : public sandbox::NetworkGate {
 public:
  // `channel` leads to egress; `client` speaks to it.
  EgressGate(linux::Loop& loop, int channel, http::Client& client)
      : loop_(loop), channel_(channel), client_(client), tasks_(loop) {}

  Task<Result<std::map<std::string, std::string>>> attach(Attachment attachment) override;
  void detach(std::uint64_t key) override { tasks_.spawn(tell_detached(key)); }
  void keep_only(std::vector<std::uint64_t> keys) override {
    tasks_.spawn(tell_kept(std::move(keys)));
  }

 private:
  Task<Result<std::unique_ptr<http::Transport>>> dial_with(const Attachment& attachment);
  Task<> tell_detached(std::uint64_t key);
  Task<> tell_kept(std::vector<std::uint64_t> keys);
  Task<Result<void>> tell(http::ClientRequest request);

  linux::Loop& loop_;
  int channel_;
  http::Client& client_;
  linux::TaskGroup tasks_;
};

}  // namespace pons::warden
