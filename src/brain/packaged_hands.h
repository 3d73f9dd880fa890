#pragma once

#include "package_builds.h"
#include "pons/session/world.h"

namespace pons::brain {

// Sandboxes of templates that packages are put into: who asks for one waits for its template.
class PackagedHands final : public session::Hands {
 public:
  // What it is given outlives it.
  PackagedHands(session::Hands& hands, PackageBuilds& builds, Duration patience = kPatience)
      : hands_(hands), builds_(builds), patience_(patience) {}

  // kInvalid: there is none, and why.
  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder order) override;
  Task<Result<void>> copy(session::CopyOrder order) override {
    return hands_.copy(std::move(order));
  }
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder order) override {
    return hands_.execute(std::move(order));
  }
  Task<Result<void>> stop(std::string sandbox, std::string call) override {
    return hands_.stop(std::move(sandbox), std::move(call));
  }
  Task<Result<void>> destroy(std::string sandbox) override {
    return hands_.destroy(std::move(sandbox));
  }

 private:
  static constexpr Duration kPatience = std::chrono::minutes(10);

  session::Hands& hands_;
  PackageBuilds& builds_;
  const Duration patience_;
};

}  // namespace pons::brain
