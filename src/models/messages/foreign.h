#pragma once

#include <string_view>

#include "json_writer.h"
#include "messages/turns.h"
#include "pons/models/protocol.h"

// What is said around the conversation by clients of other protocols, in the terms of this one.

namespace pons::models::messages {

// What a model behind this protocol understands, by its name: newer models of Anthropic refuse what
// older ones need.
struct ModelTraits {
  bool thinks_adaptively = false;  // else it is given a budget
  bool takes_sampling = true;      // temperature, top_p, top_k
  bool follows_schemas = false;    // output_config.format, strict tools
};
ModelTraits traits_of(std::string_view model);

// A request without messages and tools that write_fields() can write: with a limit of 32,000 tokens
// where the client names none; a thinking budget that leaves 1,024 tokens for the answer (it is the
// budget that gives way, never the client's limit); no thinking where Anthropic would refuse it.
Result<Request> fitting_fields(const Request& request, const ModelTraits& traits,
                               const Turns& turns, Omitted& omitted);

// What the system prompt must say when the format cannot be asked for; empty: nothing.
std::string format_instruction(const Request& request, const ModelTraits& traits, Omitted& omitted);

// A free-form tool becomes a function with one string, "input".
Result<void> write_foreign_tools(JsonWriter& json, const Request& request,
                                 const ModelTraits& traits, Omitted& omitted);

}  // namespace pons::models::messages
