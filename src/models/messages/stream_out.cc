#include "json_node.h"
#include "messages/answer_out.h"
#include "messages/errors.h"
#include "messages/usage.h"
#include "messages/wire.h"

namespace pons::models::messages {

namespace {

constexpr std::string_view kPing = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

class MessagesWriter final : public AnswerWriter {
 public:
  explicit MessagesWriter(const Request& request) : model_(request.model) {}

  void take(const AnswerEvent& event, std::string& out) override {
    if (over_) return;
    if (const auto* grows = std::get_if<PartGrows>(&event))
      grow(grows->text, out);
    else if (const auto* part = std::get_if<PartBegins>(&event))
      begin_part(part->part, out);
    else if (std::holds_alternative<PartEnds>(event))
      end_part(out);
    else if (const auto* proof = std::get_if<ProofCame>(&event))
      take_proof(proof->proof, out);
    else if (const auto* citation = std::get_if<CitationCame>(&event))
      cite(*citation, out);
    else if (const auto* begins = std::get_if<AnswerBegins>(&event))
      begin(*begins, out);
    else if (const auto* ends = std::get_if<AnswerEnds>(&event))
      end(*ends, out);
    else if (const auto* failure = std::get_if<Failure>(&event))
      fail(*failure, out);
  }

  void keep_alive(std::string& out) override { out += kPing; }

 private:
  // Writes "event: TYPE\ndata: {"type":"TYPE"", then what `body` adds, and closes it.
  template <class Body>
  static void write_event(std::string& out, std::string_view type, Body body) {
    out.append("event: ").append(type).append("\ndata: ");
    JsonWriter json(out);
    json.begin_object().field("type", type);
    body(json);
    json.end_object();
    out += "\n\n";
  }

  void write_delta(std::string& out, std::string_view type, std::string_view key,
                   std::string_view text) const {
    write_event(out, "content_block_delta", [&](JsonWriter& json) {
      json.field("index", index_).key("delta").begin_object();
      json.field("type", type).field(key, text).end_object();
    });
  }

  void begin(const AnswerBegins& begins, std::string& out) {
    if (began_) return;
    began_ = true;
    write_event(out, "message_start", [&](JsonWriter& json) {
      json.key("message");
      const Answer about{.id = begins.id,
                         .model = begins.model.empty() ? model_ : begins.model,
                         .parts = {},
                         .usage = begins.usage};
      write_message(json, about, "[]", "");
    });
  }

  void begin_part(const Part& part, std::string& out) {
    is_open_ = has_block(part);
    if (!is_open_) return;
    if (!began_) begin({}, out);
    note(written_, part);
    open_ = part;
    write_event(out, "content_block_start", [&](JsonWriter& json) {
      json.field("index", index_).key("content_block");
      write_start(json, part);
    });
    if (auto* thinking = std::get_if<ThinkingPart>(&open_.content);
        thinking && !thinking->redacted) {
      std::string text;
      std::string proof;
      text.swap(thinking->text);
      proof.swap(thinking->proof);
      grow(text, out);
      take_proof(proof, out);
    } else if (const auto* text = std::get_if<TextPart>(&part.content)) {
      grow(text->text, out);
      cite_all(*text, out);
    } else if (const auto* refusal = std::get_if<RefusalPart>(&part.content)) {
      grow(refusal->text, out);
    } else if (const auto* call = std::get_if<ToolCallPart>(&part.content)) {
      if (call->free_form) write_delta(out, "input_json_delta", "partial_json", R"({"input":")");
      grow(call->input, out);
    }
  }

  static void write_start(JsonWriter& json, const Part& part) {
    if (const auto* opaque = std::get_if<OpaquePart>(&part.content)) {
      json.raw(opaque->json);
      return;
    }
    json.begin_object();
    if (const auto* thinking = std::get_if<ThinkingPart>(&part.content)) {
      if (thinking->redacted)
        json.field("type", "redacted_thinking").field("data", thinking->proof);
      else
        json.field("type", "thinking").field("thinking", "").field("signature", "");
    } else if (const auto* call = std::get_if<ToolCallPart>(&part.content)) {
      json.field("type", "tool_use").field("id", call->id).field("name", call->name);
      json.raw_field("input", "{}");
    } else {
      json.field("type", "text").field("text", "");
    }
    json.end_object();
  }

  void grow(std::string_view text, std::string& out) {
    if (!is_open_ || text.empty()) return;
    if (auto* thinking = std::get_if<ThinkingPart>(&open_.content)) {
      // The carried proof of another author holds the text too.
      if (thinking->author != Protocol::kMessages) thinking->text += text;
      write_delta(out, "thinking_delta", "thinking", text);
    } else if (const auto* call = std::get_if<ToolCallPart>(&open_.content)) {
      write_delta(out, "input_json_delta", "partial_json",
                  call->free_form ? inside_string(text) : text);
    } else if (!std::holds_alternative<OpaquePart>(open_.content)) {
      write_delta(out, "text_delta", "text", text);
    }
  }

  // As it stands between the quotes of a JSON string.
  std::string_view inside_string(std::string_view text) {
    escaped_.clear();
    JsonWriter(escaped_).string(text);
    return std::string_view(escaped_).substr(1, escaped_.size() - 2);
  }

  void take_proof(std::string_view proof, std::string& out) {
    auto* thinking = is_open_ ? std::get_if<ThinkingPart>(&open_.content) : nullptr;
    if (thinking == nullptr || proof.empty()) return;
    if (thinking->author == Protocol::kMessages)
      write_delta(out, "signature_delta", "signature", proof);
    else
      thinking->proof += proof;
  }

  void cite(const CitationCame& citation, std::string& out) const {
    if (!is_open_) return;
    if (citation.cited_in != Protocol::kMessages) {
      const std::string page = page_citation(citation.json);
      if (!page.empty()) cite({.json = page, .cited_in = Protocol::kMessages}, out);
      return;
    }
    write_event(out, "content_block_delta", [&](JsonWriter& json) {
      json.field("index", index_).key("delta").begin_object().field("type", "citations_delta");
      json.raw_field("citation", citation.json).end_object();
    });
  }

  void cite_all(const TextPart& text, std::string& out) const {
    if (text.citations.empty() || text.cited_in != Protocol::kMessages) return;
    JsonDocument document;
    const auto citations = document.parse(text.citations);
    if (!citations || !citations->is_array()) return;
    for (const auto citation : simdjson::dom::array(citations->value()))
      cite({.json = simdjson::minify(citation)}, out);
  }

  void end_part(std::string& out) {
    if (!is_open_) return;
    is_open_ = false;
    if (const auto* call = std::get_if<ToolCallPart>(&open_.content); call && call->free_form)
      write_delta(out, "input_json_delta", "partial_json", "\"}");
    const auto* thinking = std::get_if<ThinkingPart>(&open_.content);
    if (thinking != nullptr && thinking->author != Protocol::kMessages)
      write_delta(out, "signature_delta", "signature", sealed(*thinking).proof);
    write_event(out, "content_block_stop", [&](JsonWriter& json) { json.field("index", index_); });
    ++index_;
  }

  void end(const AnswerEnds& ends, std::string& out) {
    over_ = true;
    write_event(out, "message_delta", [&](JsonWriter& json) {
      json.key("delta").begin_object();
      json.field("stop_reason", reason_for(ends.stop, written_)).key("stop_sequence");
      if (ends.stop_sequence.empty())
        json.null();
      else
        json.string(ends.stop_sequence);
      json.end_object().key("usage");
      write_usage(json, ends.usage);
    });
    write_event(out, "message_stop", [](JsonWriter&) {});
  }

  void fail(const Failure& failure, std::string& out) {
    over_ = true;
    write_event(out, "error", [&](JsonWriter& json) {
      json.key("error").begin_object().field("type", error_type_of(failure.kind));
      json.field("message", message_of(failure)).end_object();
    });
  }

  std::string model_;
  Written written_;
  Part open_;  // what is kept of the open part: no text but another author's thinking
  std::string escaped_;
  std::int64_t index_ = 0;
  bool is_open_ = false;
  bool began_ = false;
  bool over_ = false;
};

}  // namespace

std::unique_ptr<AnswerWriter> stream_writer(const Request& request) {
  return std::make_unique<MessagesWriter>(request);
}

}  // namespace pons::models::messages
