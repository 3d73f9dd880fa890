#pragma once

#include <string>
#include <string_view>

#include "model_request.h"

namespace pons::gateway {

// What names a conversation, the same in each of its turns: the name that the client gives it, or
// else who calls and the first message of the user.
std::string affinity_of(const ModelRequest& request, const http::RequestHead& head,
                        std::string_view caller);

}  // namespace pons::gateway
