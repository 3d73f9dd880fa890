#include "pons/models/answer.h"

namespace pons::models {

namespace {

// The text that grows in a part; null where none does.
template <class SomePart>
auto growing(SomePart& part) -> decltype(&std::get_if<TextPart>(&part.content)->text) {
  if (auto* text = std::get_if<TextPart>(&part.content)) return &text->text;
  if (auto* refusal = std::get_if<RefusalPart>(&part.content)) return &refusal->text;
  if (auto* thinking = std::get_if<ThinkingPart>(&part.content)) return &thinking->text;
  if (auto* call = std::get_if<ToolCallPart>(&part.content)) return &call->input;
  return nullptr;
}

void add_citation(TextPart& text, const CitationCame& came) {
  text.cited_in = came.cited_in;
  if (text.citations.empty()) {
    text.citations = "[" + came.json + "]";
    return;
  }
  text.citations.back() = ',';
  text.citations += came.json + "]";
}

}  // namespace

std::string_view name_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kMessages:
      return "messages";
    case Protocol::kChat:
      return "chat";
    case Protocol::kResponses:
      return "responses";
  }
  return "";
}

void AnswerBuilder::take(const AnswerEvent& event) {
  if (const auto* begins = std::get_if<AnswerBegins>(&event)) {
    answer_.id = begins->id;
    answer_.model = begins->model;
    answer_.usage = begins->usage;
  } else if (const auto* part = std::get_if<PartBegins>(&event)) {
    answer_.parts.push_back(part->part);
  } else if (const auto* ends = std::get_if<AnswerEnds>(&event)) {
    answer_.stop = ends->stop;
    answer_.stop_sequence = ends->stop_sequence;
    answer_.usage = ends->usage;
    whole_ = true;
  } else if (const auto* failure = std::get_if<Failure>(&event)) {
    failure_ = *failure;
  } else if (!answer_.parts.empty()) {
    Part& open = answer_.parts.back();
    if (const auto* grows = std::get_if<PartGrows>(&event)) {
      if (std::string* text = growing(open)) *text += grows->text;
    } else if (const auto* proof = std::get_if<ProofCame>(&event)) {
      if (auto* thinking = std::get_if<ThinkingPart>(&open.content))
        thinking->proof += proof->proof;
    } else if (const auto* citation = std::get_if<CitationCame>(&event)) {
      if (auto* text = std::get_if<TextPart>(&open.content)) add_citation(*text, *citation);
    }
  }
}

std::vector<AnswerEvent> events_of(const Answer& answer) {
  std::vector<AnswerEvent> events;
  events.emplace_back(AnswerBegins{.id = answer.id, .model = answer.model, .usage = answer.usage});
  for (const Part& part : answer.parts) {
    // What grows is said by its own event, as in a stream; the rest comes with the beginning.
    Part begun = part;
    std::string* const grown = growing(begun);
    if (grown != nullptr) grown->clear();
    std::string proof;
    if (auto* thinking = std::get_if<ThinkingPart>(&begun.content); thinking && !thinking->redacted)
      proof.swap(thinking->proof);
    events.emplace_back(PartBegins{.part = std::move(begun)});
    if (const auto* text = growing(part); text && !text->empty())
      events.emplace_back(PartGrows{.text = *text});
    if (!proof.empty()) events.emplace_back(ProofCame{.proof = std::move(proof)});
    events.emplace_back(PartEnds{});
  }
  events.emplace_back(AnswerEnds{
      .stop = answer.stop, .stop_sequence = answer.stop_sequence, .usage = answer.usage});
  return events;
}

}  // namespace pons::models
