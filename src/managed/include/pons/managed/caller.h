#pragma once

#include <functional>
#include <string>

#include "pons/base/json.h"
#include "pons/base/task.h"
#include "pons/http/router.h"
#include "pons/managed/reply.h"

namespace pons::managed {

// Who asks: found out by the front, from the API key; or the operator, who says ?project=NAME.
struct Caller {
  std::string project;
  std::string key;           // id of the API key; "operator"
  std::string request_id;    // may be empty
  std::string session = {};  // of a worker's token, which opens this one and what it knows
};
// kDenied also when the caller has a token for one session, and this is none of that session's.
// Which memory stores are, the path does not say.
Result<Caller> caller_of(const http::Exchange& exchange);

// One request of a known caller. `ids` are the values of the route's {names}, in order.
struct Call {
  http::Exchange& exchange;
  Caller caller;
  std::vector<std::string> ids;

  // As a JSON object; an empty one when there is no body.
  Task<Reply<Json>> body(std::size_t bytes_max = std::size_t{8} << 20);
};

// What a route's {names} stand for. What is no text names nothing that is there: it is empty.
std::vector<std::string> read_ids(const http::PathValues& values);

// A handler that answers with what the work gives, or says why not.
using Work = std::function<Task<Reply<Json>>(Call&)>;
http::RouteHandler answering(Work work);

}  // namespace pons::managed
