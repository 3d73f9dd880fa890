#pragma once

#include "pons/guest/key_desk.h"
#include "pons/http/client.h"

namespace pons::brain {

// Keys of the gateway's making.
class GatewayKeys final : public guest::KeyDesk {
 public:
  GatewayKeys(linux::Loop& loop, http::Connector connector);

  Task<Result<guest::ModelKey>> open(guest::KeyWish wish) override;
  Task<Result<session::Usage>> used(std::string id) override;
  Task<Result<void>> close(std::string id) override;

 private:
  Task<Result<std::string>> ask(std::string method, std::string target, std::string body);
  http::Client client_;
};

}  // namespace pons::brain
