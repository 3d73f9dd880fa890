#pragma once

#include <vector>

#include "access_requests.h"
#include "attachments.h"
#include "pons/http/exchange.h"

namespace pons::egress {

// What the brain has to hear of access requests. A person is asked only for what their word can
// open; the rest is the operator's.
class AccessNews {
 public:
  AccessNews(Boundary& boundary, Attachments& attachments);

  // Until there is something, the client leaves, or some time has passed.
  Task<> wait(http::Exchange& exchange);
  Json list() const;

 private:
  Task<> watch(http::Exchange& exchange, TimePoint deadline, bool& has_left);
  bool is_for_people(const AccessRequest& request) const;

  Boundary& boundary_;
  Attachments& attachments_;
  linux::Event changed_;
};

}  // namespace pons::egress
