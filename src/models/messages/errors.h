#pragma once

#include "json_node.h"
#include "pons/models/answer.h"

namespace pons::models::messages {

// Of {"type":"error","error":{"type","message"}}, in a stream or a body. `status` is 0 in a stream.
Failure failure_of(const JsonNode& body, int status);

std::string_view error_type_of(Failing kind);
// What the client reads; clients look for Anthropic's words where the prompt is too long.
std::string message_of(const Failure& failure);

}  // namespace pons::models::messages
