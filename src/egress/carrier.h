#pragma once

#include <memory>
#include <string>

#include "attachments.h"
#include "pons/http/exchange.h"
#include "pons/http/transport.h"

namespace pons::egress {

// Brings requests of the brain (to MCP servers of others) to hosts outside. Each leaves as one of a
// sandbox under that environment would: judged by its policy, the credential put in where it is
// bound to, the answer scrubbed, all of it on record.
//
//   POST /carry   x-pons-environment: NAME    or x-pons-network: POLICY, a document on one line
//                 x-pons-url: https://host/path
//                 x-pons-method: DELETE | GET | POST
//                 x-pons-credential: NAME     may be missing; leaves as "Authorization: Bearer …"
//                 x-pons-for: SESSION         for the record
//                 x-pons-project: PROJECT     with the next one
//                 x-pons-vaults: ID,ID        of that project; may be missing. The first of them
//                                             that has a token for this URL gives it: it leaves as
//                                             "Authorization: Bearer …", and nobody names it. One
//                                             that is gone is passed over for the others' tokens
//
// What comes from the host has "x-pons-carried: yes"; a refusal of ours has not.
class Carrier {
 public:
  Carrier(Boundary& boundary, Attachments& attachments)
      : boundary_(boundary), attachments_(attachments) {}

  // `ready`: a connection to the host that stands already; tests have one.
  Task<> handle(http::Exchange& exchange, std::unique_ptr<http::Transport> ready = nullptr);

 private:
  struct Order;
  Result<Order> read_order(const http::RequestHead& head);
  Result<void> take_vaults(const http::RequestHead& head, Order& order);

  Boundary& boundary_;
  Attachments& attachments_;
  std::uint64_t carried_ = 0;
};

}  // namespace pons::egress
