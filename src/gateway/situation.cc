#include "situation.h"

namespace pons::gateway {

namespace {

std::string text_of(const std::vector<models::Part>& parts) {
  std::string text;
  for (const models::Part& part : parts)
    if (const auto* said = std::get_if<models::TextPart>(&part.content)) text += said->text;
  return text;
}

}  // namespace

Situation Situation::of(const models::Request& request) {
  Situation now;
  for (const models::Message& message : request.messages) {
    if (message.role == models::Role::kAssistant) ++now.turn;
    if (message.role == models::Role::kSystem || message.role == models::Role::kDeveloper)
      now.system += text_of(message.parts) + "\n";
    if (message.role != models::Role::kUser) continue;
    if (std::string said = text_of(message.parts); !said.empty()) now.user = std::move(said);
    for (const models::Part& part : message.parts)
      if (const auto* result = std::get_if<models::ToolResultPart>(&part.content))
        now.tool_result = text_of(result->content);
  }
  return now;
}

}  // namespace pons::gateway
