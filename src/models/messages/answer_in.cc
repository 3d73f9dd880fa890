#include "messages/blocks_in.h"
#include "messages/usage.h"
#include "messages/wire.h"
#include "shared_document.h"

namespace pons::models::messages {

Result<Answer> read_answer(std::string_view body) {
  JsonDocument document;
  const JsonNode root = TRY(document.parse(body));
  const JsonNode type = TRY(root.at("type"));
  if (TRY(type.as_string()) != "message") return type.error("must be \"message\"");
  Answer answer{.id = std::string(TRY(root.string_or("id", ""))),
                .model = std::string(TRY(root.string_or("model", ""))),
                .parts = {}};
  const JsonNode content = TRY(root.at("content"));
  answer.parts = TRY(read_content(content, Place::kAnswer));
  answer.stop = stop_of(TRY(root.string_or("stop_reason", "end_turn")));
  answer.stop_sequence = TRY(root.string_or("stop_sequence", ""));
  UsageCount count;
  if (const auto usage = root.find("usage")) count.see(*usage);
  answer.usage = count.usage();
  return answer;
}

Usage usage_of(std::string_view body) {
  UsageCount count;
  if (const auto root = shared_document(body).parse(body))
    if (const auto usage = root->find("usage")) count.see(*usage);
  return count.usage();
}

}  // namespace pons::models::messages
