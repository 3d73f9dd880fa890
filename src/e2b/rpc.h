#pragma once

#include "call.h"

namespace pons::e2b {

// Answers POST /package.Service/Method; false when there is no such method.
Task<bool> answer_rpc(Call& call);
// Answers such a request with an error before anybody looked into it; false when it is none.
bool refuse_rpc(http::Exchange& exchange, const Error& error);

}  // namespace pons::e2b
