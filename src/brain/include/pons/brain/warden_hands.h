#pragma once

#include "pons/sandbox/provider.h"
#include "pons/session/world.h"

namespace pons::brain {

// Sandboxes for sessions, of any provider.
class WardenHands final : public session::Hands {
 public:
  WardenHands(linux::Loop& loop, sandbox::Provider& provider, sandbox::Limits limits)
      : loop_(loop), provider_(provider), limits_(limits) {}

  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder order) override;
  Task<Result<void>> copy(session::CopyOrder order) override;
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder order) override;
  Task<Result<void>> stop(std::string sandbox, std::string call) override;
  Task<Result<void>> destroy(std::string sandbox) override;

 private:
  struct Collected;
  Task<Result<sandbox::SandboxInfo>> make(std::string from, sandbox::CreateRequest request);
  Task<std::string> take_checkpoint(const session::ExecuteOrder& order);
  Task<Result<void>> follow(const session::ExecuteOrder& order, Collected& collected);

  linux::Loop& loop_;
  sandbox::Provider& provider_;
  sandbox::Limits limits_;
};

}  // namespace pons::brain
