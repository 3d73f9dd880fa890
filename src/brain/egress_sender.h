#pragma once

#include <string>

#include "pons/http/client.h"
#include "pons/mcp/sender.h"

namespace pons::brain {

// The way to one MCP server outside, by egress: under the rules of an environment, and with a
// credential that is put in there.
class EgressSender final : public mcp::Sender {
 public:
  struct Way {
    std::string url;
    std::string environment;
    std::string network = {};  // or a policy of its own
    std::string credential;    // its name; empty: none
    std::string session;       // for whom, for the record
    std::string project = {};
    std::string vaults =
        {};  // of that project, by id, with commas; one may have a token for the URL
  };
  // `egress` outlives this and its answers.
  EgressSender(linux::Loop& loop, http::Client& egress, Way way)
      : loop_(loop), egress_(egress), way_(std::move(way)) {}

  // kDenied: egress does not let it leave, and says why.
  Task<Result<std::unique_ptr<mcp::ServerAnswer>>> send(mcp::ServerRequest request,
                                                        TimePoint deadline) override;

 private:
  linux::Loop& loop_;
  http::Client& egress_;
  Way way_;
};

}  // namespace pons::brain
