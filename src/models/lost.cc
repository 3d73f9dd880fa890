#include "pons/models/lost.h"

#include <algorithm>

#include "json_node.h"

namespace pons::models {

void name_what_is_lost(const Request& request, Omitted& omitted) {
  const auto name = [&](const std::vector<ExtraField>& extras) {
    for (const ExtraField& extra : extras)
      if (extra.json != "null" && std::ranges::find(omitted, extra.name) == omitted.end())
        omitted.push_back(extra.name);
  };
  for (const Message& message : request.messages) {
    name(message.extras);
    for (const Part& part : message.parts) name(part.extras);
  }
  for (const Tool& tool : request.tools) name(tool.extras);
}

void name_what_is_lost(const Answer& answer, Protocol client, Omitted& omitted) {
  for (const Part& part : answer.parts) {
    const auto* const text = std::get_if<TextPart>(&part.content);
    if (text == nullptr || text->citations.empty() || text->cited_in == client) continue;
    JsonDocument document;
    const auto list = document.parse(text->citations);
    if (!list) continue;
    const auto are_pages = list->for_each([](const JsonNode& citation) -> Result<void> {
      const auto inner = citation.find("url_citation");  // kChat's
      if ((inner ? *inner : citation).find("url")) return {};
      return citation.error("is no page");
    });
    if (are_pages || std::ranges::find(omitted, "citations") != omitted.end()) continue;
    omitted.emplace_back("citations");
  }
}

}  // namespace pons::models
