#pragma once

#include <string>

#include "keys.h"
#include "pons/e2b/control_plane.h"
#include "pons/http/client.h"
#include "rate_limit.h"

namespace pons::front {

// What the API asks of the roles behind the door, beside sandboxes.
class RolesBehind final : public e2b::Surroundings {
 public:
  RolesBehind(linux::Loop& loop, const Keys& keys, http::Client& brain, http::Client& egress)
      : loop_(loop), keys_(keys), brain_(brain), egress_(egress) {}

  Result<e2b::Caller> authenticate(const http::Exchange& exchange) override;
  Task<Result<void>> record_created(const e2b::Caller& caller,
                                    const sandbox::SandboxInfo& info) override;
  Task<Result<void>> record_ended(std::string project, std::string id, std::string reason) override;
  Task<Result<std::vector<e2b::OpenRecord>>> list_open_records(std::string after) override;
  Task<Result<void>> set_network(std::string id, std::string policy) override;
  Task<Result<std::string>> find_network(std::string id) override;
  Task<Result<std::string>> ask_secrets(std::string question) override;

 private:
  // More than a burst of a hundred SDKs needs, and less than what keeps this loop from others.
  static constexpr std::uint32_t kRequestsPerSecond = 2'000;

  linux::Loop& loop_;
  const Keys& keys_;
  RateLimit rate_{kRequestsPerSecond};
  http::Client& brain_;
  http::Client& egress_;
};

}  // namespace pons::front
