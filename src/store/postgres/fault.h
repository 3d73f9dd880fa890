#pragma once

#include "backend_message.h"
#include "pons/base/result.h"

namespace pons::store::postgres {

// What the server said, in our words.
Error error_of(const Fault& fault);

// Nothing of the transaction was done, and the same one may well succeed when asked again: two
// waited for each other, or what was prepared is gone.
bool may_be_asked_again(const Fault& fault);

// The connection has no future: the server goes away, or has become one that only reads.
bool ends_connection(const Fault& fault);

}  // namespace pons::store::postgres
