#include <algorithm>
#include <deque>
#include <unordered_set>

#include <fmt/format.h>

#include "responses/responses.h"
#include "shared_document.h"

namespace pons::models::responses {

namespace {

// A part that the provider writes. Only the oldest is told at once: items may be written side by
// side, and the events of an answer never overlap.
struct Slot {
  std::int64_t output = 0;
  std::int64_t content = 0;  // within a message
  Part part;
  std::string text;  // not told yet
  std::vector<std::string> citations;
  std::string proof;
  bool is_told = false;
  bool has_grown = false;
  bool is_done = false;
  std::int64_t summary = -1;  // of reasoning: the number of the text that grows
  bool has_summary = false;
};

constexpr std::size_t kWaitingBytesMax = std::size_t{32} << 20U;
constexpr std::size_t kPartsMax = 100'000;

class Reader final : public AnswerReader {
 public:
  Result<void> feed(const http::ServerEvent& event, const AnswerSink& sink) override {
    if (over_ || event.data.empty() || event.data == "[DONE]") return {};
    const JsonNode root = TRY(shared_document(event.data).parse(event.data));
    const auto type = TRY(root.string_at("type"));
    if (type == "error") {
      const auto error = root.find("error");
      fail(read_failure(error ? *error : root), sink);
      return {};
    }
    if (!type.starts_with("response.")) return {};
    if (const auto response = root.find("response")) return take_response(type, *response, sink);
    if (!is_of_part(type)) return {};
    if (!begun_) return root.error("the stream does not begin with response.created");
    TRY_VOID(take_part_event(type, root, sink));
    if (seen_.size() > kPartsMax || waiting_bytes_ > kWaitingBytesMax)
      return root.error("the provider writes too much side by side");
    return {};
  }

  Result<void> finish(const AnswerSink& /*sink*/) override {
    if (over_) return {};
    return make_error(ErrorCode::kInvalid, "read answer",
                      "the stream ended before response.completed");
  }

 private:
  static bool is_of_part(std::string_view type) {
    for (const std::string_view prefix :
         {"response.output_item.", "response.content_part.", "response.output_text.",
          "response.refusal.", "response.reasoning_", "response.function_call_arguments.",
          "response.custom_tool_call_input."})
      if (type.starts_with(prefix)) return true;
    return false;
  }

  Result<void> take_response(std::string_view type, const JsonNode& response,
                             const AnswerSink& sink) {
    TRY_VOID(response.expect_object());
    if (type == "response.failed" || type == "response.cancelled") {
      const auto error = response.find("error");
      fail(error ? read_failure(*error) : Failure{.message = "the provider gave up on the answer"},
           sink);
      return {};
    }
    if (!begun_) {
      begun_ = true;
      sink(AnswerBegins{.id = std::string(TRY(response.string_or("id", ""))),
                        .model = std::string(TRY(response.string_or("model", ""))),
                        .usage = read_usage(response)});
    }
    if (type != "response.completed" && type != "response.incomplete") return {};
    for (Slot& slot : slots_) slot.is_done = true;
    tell(sink);
    if (!has_told_) TRY_VOID(tell_output(response, sink));
    over_ = true;
    sink(AnswerEnds{.stop = stop_of(response, said_), .usage = read_usage(response)});
    return {};
  }

  // Some servers stream nothing but the end.
  Result<void> tell_output(const JsonNode& response, const AnswerSink& sink) {
    const auto output = response.find("output");
    if (!output) return {};
    Answer answer;
    TRY_VOID(output->for_each(
        [&](const JsonNode& item) { return read_output_item(item, answer.parts); }));
    for (const Part& part : answer.parts) said_.take(part);
    auto events = events_of(answer);
    for (std::size_t at = 1; at + 1 < events.size(); ++at) sink(events[at]);
    return {};
  }

  void fail(Failure failure, const AnswerSink& sink) {
    over_ = true;
    sink(std::move(failure));
  }

  Result<void> take_part_event(std::string_view type, const JsonNode& root,
                               const AnswerSink& sink) {
    const auto output = TRY(root.integer_at("output_index")).value_or(0);
    const auto content = TRY(root.integer_at("content_index")).value_or(0);
    if (!is_index(output) || !is_index(content)) return root.error("is no event of an item");
    if (type == "response.output_item.added")
      TRY_VOID(add_item(output, root));
    else if (type == "response.output_item.done")
      TRY_VOID(end_item(output, root, sink));
    else if (type == "response.content_part.added")
      TRY_VOID(add_content(output, content, root));
    else if (type == "response.content_part.done")
      TRY_VOID(end_content(output, content, root, sink));
    else if (type == "response.output_text.annotation.added")
      TRY_VOID(add_citation(output, content, root));
    else if (type.ends_with(".delta"))
      TRY_VOID(grow(type, output, content, root, sink));
    tell(sink);
    return {};
  }

  static bool is_index(std::int64_t number) { return number >= 0 && number < (1 << 20); }
  static std::int64_t key_of(std::int64_t output, std::int64_t content) {
    return (output << 20) | content;
  }
  bool was_seen(std::int64_t output, std::int64_t content) const {
    return seen_.contains(key_of(output, content));
  }

  Slot* find(std::int64_t output, std::int64_t content) {
    const auto found = std::ranges::find_if(slots_, [&](const Slot& slot) {
      return !slot.is_done && slot.output == output && slot.content == content;
    });
    return found == slots_.end() ? nullptr : &*found;
  }

  Slot& add(std::int64_t output, std::int64_t content, Part part) {
    said_.take(part);
    seen_.insert(key_of(output, content));
    slots_.push_back({.output = output, .content = content, .part = std::move(part)});
    return slots_.back();
  }

  Result<void> add_item(std::int64_t output, const JsonNode& root) {
    const auto item = TRY(root.at("item"));
    const auto type = TRY(item.string_at("type"));
    if (was_seen(output, 0)) return {};  // said twice
    if (type == "function_call" || type == "custom_tool_call") {
      auto call = TRY(read_call(item));
      call.input.clear();  // comes again with the item's end
      add(output, 0, {.content = std::move(call)});
    } else if (type == "reasoning") {
      add(output, 0, {.content = ThinkingPart{.text = {}, .author = Protocol::kResponses}});
    }
    return {};
  }

  Result<void> add_content(std::int64_t output, std::int64_t content, const JsonNode& root) {
    const auto part = TRY(root.at("part"));
    const auto type = TRY(part.string_at("type"));
    if (was_seen(output, content)) return {};
    if (type == "output_text")
      add(output, content, {.content = TextPart{}});
    else if (type == "refusal")
      add(output, content, {.content = RefusalPart{}});
    return {};  // reasoning_text grows in the slot of its item
  }

  Result<void> grow(std::string_view type, std::int64_t output, std::int64_t content,
                    const JsonNode& root, const AnswerSink& sink) {
    const auto delta = TRY(root.string_at("delta"));
    if (type.starts_with("response.reasoning_")) return grow_reasoning(type, output, root, sink);
    const bool is_text = type == "response.output_text.delta";
    const bool is_refusal = type == "response.refusal.delta";
    Slot* slot = find(output, content);
    if (slot == nullptr && was_seen(output, content)) return {};
    if (slot == nullptr && is_text) slot = &add(output, content, {.content = TextPart{}});
    if (slot == nullptr && is_refusal) slot = &add(output, content, {.content = RefusalPart{}});
    if (slot == nullptr)
      return root.error(fmt::format("output_index {}: no item of that number is open", output));
    grow_slot(*slot, delta, sink);
    return {};
  }

  Result<void> grow_reasoning(std::string_view type, std::int64_t output, const JsonNode& root,
                              const AnswerSink& sink) {
    Slot* slot = find(output, 0);
    if (slot == nullptr && was_seen(output, 0)) return {};
    if (slot == nullptr || !std::holds_alternative<ThinkingPart>(slot->part.content))
      return root.error(
          fmt::format("output_index {}: no reasoning of that number is open", output));
    const bool is_summary = type == "response.reasoning_summary_text.delta";
    if (!is_summary && type != "response.reasoning_text.delta") return {};
    // Either is the text of the part; where both come, the first one.
    if (slot->summary < 0) slot->has_summary = is_summary;
    if (slot->has_summary != is_summary) return {};
    const auto number =
        TRY(root.integer_at(is_summary ? "summary_index" : "content_index")).value_or(0);
    if (slot->summary >= 0 && number != slot->summary) grow_slot(*slot, "\n\n", sink);
    slot->summary = std::max<std::int64_t>(number, 0);
    grow_slot(*slot, TRY(root.string_at("delta")), sink);
    return {};
  }

  void grow_slot(Slot& slot, std::string_view delta, const AnswerSink& sink) {
    if (delta.empty()) return;
    slot.has_grown = true;
    if (&slot == &slots_.front()) {
      open(slot, sink);
      sink(PartGrows{.text = delta});
      return;
    }
    waiting_bytes_ += delta.size();
    slot.text += delta;
  }

  Result<void> add_citation(std::int64_t output, std::int64_t content, const JsonNode& root) {
    const auto annotation = TRY(root.at("annotation"));
    Slot* slot = find(output, content);
    if (slot == nullptr || !std::holds_alternative<TextPart>(slot->part.content)) return {};
    slot->citations.push_back(annotation.raw());
    waiting_bytes_ += slot->citations.back().size();
    return {};
  }

  Result<void> end_content(std::int64_t output, std::int64_t content, const JsonNode& root,
                           const AnswerSink& sink) {
    const auto node = TRY(root.at("part"));
    const auto type = TRY(node.string_at("type"));
    if (type != "output_text" && type != "refusal") return {};
    const Part part = TRY(read_output_content(node));
    if (Slot* slot = find(output, content)) end(*slot, part, sink);
    return {};
  }

  // The end of an item repeats all of it: what did not come before comes now.
  Result<void> end_item(std::int64_t output, const JsonNode& root, const AnswerSink& sink) {
    const auto item = TRY(root.at("item"));
    std::vector<Part> parts;
    TRY_VOID(read_output_item(item, parts));
    for (std::size_t at = 0; at < parts.size(); ++at) {
      const auto content = static_cast<std::int64_t>(at);
      Slot* slot = find(output, content);
      if (slot == nullptr && was_seen(output, content)) continue;  // ended by itself
      if (slot == nullptr) {
        Part empty = parts[at];
        clear_text(empty);
        slot = &add(output, content, std::move(empty));
      }
      end(*slot, parts[at], sink);
    }
    for (Slot& slot : slots_) slot.is_done = slot.is_done || slot.output == output;
    return {};
  }

  static void clear_text(Part& part) {
    if (auto* text = std::get_if<TextPart>(&part.content)) *text = {};
    if (auto* refusal = std::get_if<RefusalPart>(&part.content)) *refusal = {};
    if (auto* call = std::get_if<ToolCallPart>(&part.content)) call->input.clear();
    if (auto* thinking = std::get_if<ThinkingPart>(&part.content))
      *thinking = {.text = {}, .author = Protocol::kResponses};
  }

  void end(Slot& slot, const Part& whole, const AnswerSink& sink) {
    std::string_view text;
    if (const auto* said = std::get_if<TextPart>(&whole.content)) text = said->text;
    if (const auto* refusal = std::get_if<RefusalPart>(&whole.content)) text = refusal->text;
    if (const auto* call = std::get_if<ToolCallPart>(&whole.content)) text = call->input;
    if (const auto* thinking = std::get_if<ThinkingPart>(&whole.content)) {
      text = thinking->text;
      slot.proof = thinking->proof;
    }
    if (!slot.has_grown) grow_slot(slot, text, sink);
    slot.is_done = true;
  }

  void open(Slot& slot, const AnswerSink& sink) {
    if (slot.is_told) return;
    slot.is_told = true;
    has_told_ = true;
    sink(PartBegins{.part = slot.part});
  }

  // Tells what waits, up to the first part that is not done.
  void tell(const AnswerSink& sink) {
    while (!slots_.empty()) {
      Slot& slot = slots_.front();
      open(slot, sink);
      if (!slot.text.empty()) sink(PartGrows{.text = slot.text});
      waiting_bytes_ -= slot.text.size();
      slot.text.clear();
      for (std::string& citation : slot.citations) {
        waiting_bytes_ -= citation.size();
        sink(CitationCame{.json = std::move(citation), .cited_in = Protocol::kResponses});
      }
      slot.citations.clear();
      if (!slot.is_done) return;
      if (!slot.proof.empty()) sink(ProofCame{.proof = std::move(slot.proof)});
      sink(PartEnds{});
      slots_.pop_front();
    }
  }

  std::deque<Slot> slots_;
  std::size_t waiting_bytes_ = 0;
  Said said_;
  std::unordered_set<std::int64_t> seen_;  // parts that have begun
  bool begun_ = false;
  bool over_ = false;
  bool has_told_ = false;
};

}  // namespace

std::unique_ptr<AnswerReader> stream_reader() {
  return std::make_unique<Reader>();
}

}  // namespace pons::models::responses
