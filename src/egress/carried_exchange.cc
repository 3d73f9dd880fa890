#include "carried_exchange.h"

namespace pons::egress {

CarriedExchange::CarriedExchange(http::Exchange& outer, Request request)
    : outer_(outer), request_(std::move(request)) {
  request_.fields.emplace_back("host", request_.host);
  head_.method = request_.method;
  head_.target = request_.target;
  head_.host = request_.host;
  for (const auto& [name, value] : request_.fields) head_.fields.push_back({name, value});
  if (request_.method != "POST") return;
  head_.framing = outer.request().framing;
  head_.content_length = outer.request().content_length;
}

Task<Result<void>> CarriedExchange::start(http::Response head) {
  begun_ = true;
  head.fields.emplace_back("x-pons-carried", "yes");
  co_return co_await outer_.start(std::move(head));
}

}  // namespace pons::egress
