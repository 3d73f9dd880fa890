#pragma once

#include <string>

#include "admission.h"
#include "pons/e2b/control_plane.h"
#include "pons/http/client.h"

namespace pons::front {

// What the API asks of the roles behind the door, beside sandboxes.
class RolesBehind final : public e2b::Surroundings {
 public:
  RolesBehind(Admission& admission, http::Client& brain, http::Client& egress)
      : admission_(admission), brain_(brain), egress_(egress) {}

  Result<e2b::Caller> authenticate(const http::Exchange& exchange) override;
  Task<Result<void>> record_created(const e2b::Caller& caller,
                                    const sandbox::SandboxInfo& info) override;
  Task<Result<void>> record_ended(std::string project, std::string id, std::string reason) override;
  Task<Result<std::vector<e2b::OpenRecord>>> list_open_records(std::string after) override;
  Task<Result<void>> set_network(std::string id, std::string policy) override;
  Task<Result<std::string>> find_network(std::string id) override;
  Task<Result<std::string>> ask_secrets(std::string question) override;

 private:
  Admission& admission_;
  http::Client& brain_;
  http::Client& egress_;
};

}  // namespace pons::front
