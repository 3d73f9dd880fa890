#pragma once

#include <string_view>

#include "json_writer.h"
#include "pons/models/message.h"

namespace pons::models::messages {

// The fields of a request around its model, messages and tools, as the request says them: it holds
// nothing that this protocol has no place for.
void write_fields(JsonWriter& json, const Request& request);

// A function tool with an object as its schema, or a server tool of this protocol.
void write_tool(JsonWriter& json, const Tool& tool);

}  // namespace pons::models::messages
