// What a gateway finds in a request, and the request with another model in it: a name that is put
// in is the name that is found, and nothing else changes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "pons/models/facts.h"

namespace {

void check(pons::models::Protocol protocol, std::string body) {
  const auto facts = pons::models::read_facts(protocol, body);
  if (!facts) {
    if (facts.error().message.empty()) std::abort();
    return;
  }
  const auto& [begin, end] = facts->opening;
  if (begin > end || end > body.size() || facts->inline_bytes > body.size()) std::abort();
  std::string renamed = body;
  pons::models::rename_model(protocol, renamed, *facts, "an\"other");
  const auto again = pons::models::read_facts(protocol, renamed);
  if (!again || again->model != "an\"other" || again->stream != facts->stream ||
      again->output_tokens_max != facts->output_tokens_max ||
      again->previous_response_id != facts->previous_response_id)
    std::abort();
  const bool asks = protocol == pons::models::Protocol::kChat && facts->stream;
  if (asks && !again->wants_usage) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  using enum pons::models::Protocol;
  for (const auto protocol : {kMessages, kChat, kResponses}) check(protocol, body);
  return 0;
}
