#pragma once

#include "pons/http/client.h"
#include "pons/session/world.h"

namespace pons::brain {

// The model, through the gateway.
class GatewayModel final : public session::Model {
 public:
  GatewayModel(linux::Loop& loop, http::Connector connector);
  Task<std::variant<session::Answer, session::NoAnswer>> ask(
      session::Question question, const session::Listener& listener) override;
  Task<Result<session::Usage>> end_question(std::string id) override;

 private:
  Task<Result<session::Answer>> read_answer(http::ClientResponse& response,
                                            const session::Listener& listener,
                                            session::NoAnswer& trouble);

  linux::Loop& loop_;
  http::Client client_;
};

}  // namespace pons::brain
