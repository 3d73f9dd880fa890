#pragma once

#include "call.h"

namespace pons::e2b {

// Answers POST /package.Service/Method; false when there is no such method.
Task<bool> answer_rpc(Call& call);

}  // namespace pons::e2b
