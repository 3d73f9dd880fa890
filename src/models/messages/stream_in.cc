#include <fmt/format.h>

#include "messages/blocks_in.h"
#include "messages/errors.h"
#include "messages/usage.h"
#include "messages/wire.h"
#include "shared_document.h"

namespace pons::models::messages {

namespace {

Error unreadable(std::string message) {
  return make_error(ErrorCode::kInvalid, "read answer", std::move(message));
}

// The block that is open, and what is held back of it.
struct OpenBlock {
  std::int64_t index = 0;
  Part part = {};
  std::string json = {};   // of an opaque block: as it began
  std::string held = {};   // of an opaque block: its input; of a tool call: the input it began with
  bool has_grown = false;  // an input came in pieces
};

class MessagesReader final : public AnswerReader {
 public:
  Result<void> feed(const http::ServerEvent& event, const AnswerSink& sink) override {
    if (over_ || event.data.empty() || event.data == "[DONE]") return {};
    const JsonNode root = TRY(shared_document(event.data).parse(event.data));
    TRY_VOID(root.expect_object());
    const std::string_view type = TRY(root.string_or("type", event.event));
    if (type == "content_block_delta") return take_delta(root, sink);
    if (type == "content_block_start") return begin_block(root, sink);
    if (type == "content_block_stop") return end_block(root, sink);
    if (type == "message_start") return begin(root, sink);
    if (type == "message_delta") return take_message_delta(root);
    if (type == "message_stop") return end(sink);
    if (type == "error") {
      over_ = true;
      sink(failure_of(root, 0));
    }
    return {};
  }

  Result<void> finish(const AnswerSink& sink) override {
    (void)sink;
    if (over_) return {};
    return make_error(ErrorCode::kUnavailable, "read answer",
                      "the provider's stream ended before the answer was whole");
  }

 private:
  Result<void> begin(const JsonNode& root, const AnswerSink& sink) {
    const JsonNode message = TRY(root.at("message"));
    if (const auto usage = message.find("usage")) count_.see(*usage);
    if (began_) return {};
    began_ = true;
    sink(AnswerBegins{.id = std::string(TRY(message.string_or("id", ""))),
                      .model = std::string(TRY(message.string_or("model", ""))),
                      .usage = count_.usage()});
    return {};
  }

  Result<void> begin_block(const JsonNode& root, const AnswerSink& sink) {
    if (!began_) return unreadable("content_block_start came before message_start");
    if (open_) return unreadable("content_block_start came while another block was open");
    const JsonNode block = TRY(root.at("content_block"));
    open_.emplace(OpenBlock{.index = TRY(root.integer_at("index")).value_or(0),
                            .part = TRY(read_block(block, Place::kAnswer))});
    if (std::holds_alternative<OpaquePart>(open_->part.content)) {
      open_->json = block.raw();
      return {};
    }
    std::string grown;
    if (auto* text = std::get_if<TextPart>(&open_->part.content)) grown.swap(text->text);
    if (auto* call = std::get_if<ToolCallPart>(&open_->part.content)) open_->held.swap(call->input);
    std::string proof;
    if (auto* thinking = std::get_if<ThinkingPart>(&open_->part.content)) {
      grown.swap(thinking->text);
      if (!thinking->redacted) proof.swap(thinking->proof);
    }
    sink(PartBegins{.part = open_->part});
    if (!grown.empty()) sink(PartGrows{.text = grown});
    if (!proof.empty()) sink(ProofCame{.proof = std::move(proof)});
    return {};
  }

  Result<void> expect_open(const JsonNode& root) const {
    if (!open_) return unreadable("an event of a block that is not open");
    const std::int64_t index = TRY(root.integer_at("index")).value_or(open_->index);
    if (index != open_->index)
      return unreadable(
          fmt::format("an event of block {} while block {} is open", index, open_->index));
    return {};
  }

  Result<void> take_delta(const JsonNode& root, const AnswerSink& sink) {
    TRY_VOID(expect_open(root));
    const JsonNode delta = TRY(root.at("delta"));
    const std::string_view type = TRY(delta.string_at("type"));
    const auto& content = open_->part.content;
    if (type == "text_delta")
      return grow(delta, "text", std::holds_alternative<TextPart>(content), sink);
    if (type == "thinking_delta")
      return grow(delta, "thinking", std::holds_alternative<ThinkingPart>(content), sink);
    if (type == "input_json_delta") return take_input(delta, sink);
    if (type == "signature_delta") {
      if (!std::holds_alternative<ThinkingPart>(content)) return misplaced(delta);
      sink(ProofCame{.proof = std::string(TRY(delta.string_at("signature")))});
    } else if (type == "citations_delta") {
      if (!std::holds_alternative<TextPart>(content)) return misplaced(delta);
      const JsonNode citation = TRY(delta.at("citation"));
      sink(CitationCame{.json = citation.raw(), .cited_in = Protocol::kMessages});
    } else if (type == "compaction_delta") {
      return hold(TRY(delta.string_or("content", "")));
    }
    return {};
  }

  static Error misplaced(const JsonNode& delta) {
    return delta.error("does not fit the kind of block that is open");
  }

  static Result<void> grow(const JsonNode& delta, std::string_view key, bool fits,
                           const AnswerSink& sink) {
    if (!fits) return misplaced(delta);
    const std::string_view text = TRY(delta.string_at(key));
    if (!text.empty()) sink(PartGrows{.text = text});
    return {};
  }

  Result<void> take_input(const JsonNode& delta, const AnswerSink& sink) {
    const std::string_view piece = TRY(delta.string_at("partial_json"));
    if (std::holds_alternative<OpaquePart>(open_->part.content)) return hold(piece);
    if (!std::holds_alternative<ToolCallPart>(open_->part.content)) return misplaced(delta);
    if (piece.empty()) return {};
    open_->has_grown = true;
    sink(PartGrows{.text = piece});
    return {};
  }

  Result<void> hold(std::string_view piece) {
    constexpr std::size_t kHeldMax = std::size_t{16} << 20;
    if (open_->held.size() + piece.size() > kHeldMax)
      return unreadable("a block of a server tool is too large");
    open_->held += piece;
    return {};
  }

  Result<void> end_block(const JsonNode& root, const AnswerSink& sink) {
    TRY_VOID(expect_open(root));
    if (auto* opaque = std::get_if<OpaquePart>(&open_->part.content)) {
      opaque->json = whole_block(*opaque);
      sink(PartBegins{.part = open_->part});
    } else if (std::holds_alternative<ToolCallPart>(open_->part.content) && !open_->has_grown) {
      // The input came with the beginning, or there is none.
      sink(PartGrows{.text = open_->held});
    }
    sink(PartEnds{});
    open_.reset();
    return {};
  }

  // What came in pieces is put where the block has a place for it.
  std::string whole_block(const OpaquePart& opaque) {
    if (open_->held.empty()) return std::move(open_->json);
    const bool is_compaction = opaque.type == "compaction";
    JsonDocument of_held;
    const auto held = of_held.parse(open_->held);
    if (!is_compaction && !held) return std::move(open_->json);
    const auto begun = shared_document(open_->json).parse(open_->json);
    std::string whole;
    JsonWriter json(whole);
    json.begin_object();
    const std::string_view place = is_compaction ? "content" : "input";
    for (const auto& [key, value] : simdjson::dom::object(begun->value()))
      if (key != place) json.raw_field(key, simdjson::minify(value));
    if (is_compaction)
      json.field(place, open_->held);
    else
      json.raw_field(place, held->raw());  // on one line, as a stream needs it
    json.end_object();
    return whole;
  }

  Result<void> take_message_delta(const JsonNode& root) {
    if (!began_) return unreadable("message_delta came before message_start");
    if (const auto usage = root.find("usage")) count_.see(*usage);
    const auto delta = root.find("delta");
    if (!delta) return {};
    if (const auto reason = delta->find("stop_reason")) stop_ = stop_of(TRY(reason->as_string()));
    if (const auto sequence = delta->find("stop_sequence"))
      stop_sequence_ = TRY(sequence->as_string());
    return {};
  }

  Result<void> end(const AnswerSink& sink) {
    if (!began_) return unreadable("message_stop came before message_start");
    if (open_) return unreadable("message_stop came while a block was open");
    over_ = true;
    sink(AnswerEnds{.stop = stop_, .stop_sequence = stop_sequence_, .usage = count_.usage()});
    return {};
  }

  UsageCount count_;
  std::optional<OpenBlock> open_;
  Stop stop_ = Stop::kEnd;
  std::string stop_sequence_;
  bool began_ = false;
  bool over_ = false;
};

}  // namespace

std::unique_ptr<AnswerReader> stream_reader() {
  return std::make_unique<MessagesReader>();
}

}  // namespace pons::models::messages
