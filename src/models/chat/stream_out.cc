#include "chat/chat.h"
#include "pons/models/thinking.h"

namespace pons::models::chat {

namespace {

class ChunkWriter final : public AnswerWriter {
 public:
  explicit ChunkWriter(const Request& request) : request_(&request) {}

  void take(const AnswerEvent& event, std::string& out) override {
    std::visit([&](const auto& one) { take_one(one, out); }, event);
  }
  void keep_alive(std::string& out) override { out += http::kEventStreamKeepAlive; }

 private:
  void take_one(const AnswerBegins& begins, std::string& out);
  void take_one(const PartBegins& begins, std::string& out);
  void take_one(const PartGrows& grows, std::string& out) { grow(grows.text, out); }
  void take_one(const ProofCame& came, std::string& /*out*/) { proof_ += came.proof; }
  void take_one(const CitationCame& came, std::string& out);
  void end_text(const TextPart& text, std::string& out);
  void take_one(const PartEnds& ends, std::string& out);
  void take_one(const AnswerEnds& ends, std::string& out);
  void take_one(const Failure& failure, std::string& out) const;

  void begin_tool(const ToolCallPart& call, std::string& out);
  void grow(std::string_view text, std::string& out);
  void end_tool(const ToolCallPart& call, std::string& out);
  void end_thinking(const ThinkingPart& thinking, std::string& out);
  // One chunk whose delta is what `write` says.
  template <class Write>
  void chunk(std::string& out, Write write, std::string_view finish_reason = {}) const;
  template <class Write>
  void tool_chunk(std::string& out, Write write) const;

  const Request* request_;
  std::string head_;  // of each chunk, up to its choices
  Part part_ = {.content = TextPart{}};
  std::string proof_;
  std::string kept_;  // text that is needed again when the part ends
  std::size_t content_points_ = 0;
  std::size_t part_points_ = 0;
  std::int64_t tool_index_ = -1;
  std::int64_t proof_index_ = 0;
  bool grew_ = false;
  bool unwraps_ = false;  // a call of a custom tool that came as {"input": "…"}
};

template <class Write>
void ChunkWriter::chunk(std::string& out, Write write, std::string_view finish_reason) const {
  out += head_;
  out += R"([{"index":0,"delta":)";
  JsonWriter json(out);
  json.begin_object();
  write(json);
  json.end_object();
  out += R"(,"logprobs":null,"finish_reason":)";
  if (finish_reason.empty())
    out += "null";
  else
    JsonWriter(out).string(finish_reason);
  out += request_->stream_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n";
}

template <class Write>
void ChunkWriter::tool_chunk(std::string& out, Write write) const {
  chunk(out, [&](JsonWriter& json) {
    json.key("tool_calls").begin_array().begin_object().field("index", tool_index_);
    write(json);
    json.end_object().end_array();
  });
}

void ChunkWriter::take_one(const AnswerBegins& begins, std::string& out) {
  head_ = "data: ";
  JsonWriter(head_)
      .begin_object()
      .field("id", begins.id)
      .field("object", "chat.completion.chunk")
      .field("created", unix_now())
      .field("model", begins.model.empty() ? request_->model : begins.model)
      .key("choices");
  chunk(out, [](JsonWriter& json) { json.field("role", "assistant").field("content", ""); });
}

void ChunkWriter::begin_tool(const ToolCallPart& call, std::string& out) {
  const bool free_form = call.free_form || is_free_form(*request_, call.name);
  unwraps_ = free_form && !call.free_form;
  ++tool_index_;
  const char* const type = free_form ? "custom" : "function";
  tool_chunk(out, [&](JsonWriter& json) {
    json.field("id", call.id).field("type", type).key(type).begin_object();
    json.field("name", call.name).field(free_form ? "input" : "arguments", "").end_object();
  });
  grow(call.input, out);
}

void ChunkWriter::take_one(const PartBegins& begins, std::string& out) {
  part_ = begins.part;
  proof_.clear();
  kept_.clear();
  part_points_ = 0;
  grew_ = unwraps_ = false;
  if (const auto* call = std::get_if<ToolCallPart>(&part_.content)) {
    begin_tool(*call, out);
  } else if (const auto* thinking = std::get_if<ThinkingPart>(&part_.content)) {
    proof_ = thinking->proof;
    grow(thinking->text, out);
  } else if (const auto* text = std::get_if<TextPart>(&part_.content)) {
    grow(text->text, out);
  } else if (const auto* refused = std::get_if<RefusalPart>(&part_.content)) {
    grow(refused->text, out);
  }
}

void ChunkWriter::grow(std::string_view text, std::string& out) {
  if (text.empty()) return;
  grew_ = true;
  if (const auto* call = std::get_if<ToolCallPart>(&part_.content)) {
    if (unwraps_) {
      kept_ += text;
      return;
    }
    tool_chunk(out, [&](JsonWriter& json) {
      json.key(call->free_form ? "custom" : "function").begin_object();
      json.field(call->free_form ? "input" : "arguments", text).end_object();
    });
    return;
  }
  const char* name = "content";
  if (const auto* thinking = std::get_if<ThinkingPart>(&part_.content)) {
    name = "reasoning_content";
    if (thinking->author != Protocol::kChat) kept_ += text;
  } else if (std::holds_alternative<RefusalPart>(part_.content)) {
    name = "refusal";
  } else if (std::holds_alternative<TextPart>(part_.content)) {
    part_points_ += code_points(text);
  } else {
    return;
  }
  chunk(out, [&](JsonWriter& json) { json.field(name, text); });
}

void ChunkWriter::take_one(const CitationCame& came, std::string& /*out*/) {
  auto* const text = std::get_if<TextPart>(&part_.content);
  if (text == nullptr) return;
  text->cited_in = came.cited_in;
  if (text->citations.empty())
    text->citations = "[";
  else
    text->citations.back() = ',';
  text->citations += came.json + "]";
}

// How far a cited text goes is known at its end.
void ChunkWriter::end_text(const TextPart& text, std::string& out) {
  const TextRange range{.begin = content_points_, .end = content_points_ + part_points_};
  content_points_ = range.end;
  if (text.citations.empty()) return;
  std::string list;
  JsonWriter annotations(list);
  annotations.begin_array();
  write_annotations(annotations, text.citations, text.cited_in, range);
  annotations.end_array();
  if (list == "[]") return;
  chunk(out, [&](JsonWriter& json) { json.raw_field("annotations", list); });
}

void ChunkWriter::end_tool(const ToolCallPart& call, std::string& out) {
  if (unwraps_) {
    ToolCallPart whole = call;
    whole.input = kept_;
    const std::string input = free_form_input(whole);
    tool_chunk(out, [&](JsonWriter& json) {
      json.key("custom").begin_object().field("input", input).end_object();
    });
  } else if (!grew_ && !call.free_form) {
    // No input is an empty object, which clients parse.
    grow("{}", out);
  }
}

void ChunkWriter::end_thinking(const ThinkingPart& thinking, std::string& out) {
  if (proof_.empty()) return;
  ThinkingPart whole = thinking;
  whole.text = kept_;
  whole.proof = proof_;
  chunk(out, [&](JsonWriter& json) {
    if (thinking.author == Protocol::kChat) {
      write_reasoning(json, {&whole});
      return;
    }
    json.key("reasoning_details").begin_array();
    write_carried(json, whole, proof_index_);
    json.end_array();
  });
  ++proof_index_;
}

void ChunkWriter::take_one(const PartEnds& /*ends*/, std::string& out) {
  if (const auto* call = std::get_if<ToolCallPart>(&part_.content))
    end_tool(*call, out);
  else if (const auto* thinking = std::get_if<ThinkingPart>(&part_.content))
    end_thinking(*thinking, out);
  else if (const auto* text = std::get_if<TextPart>(&part_.content))
    end_text(*text, out);
}

void ChunkWriter::take_one(const AnswerEnds& ends, std::string& out) {
  chunk(out, [](JsonWriter& /*json*/) {}, finish_reason_of(ends.stop));
  if (request_->stream_usage) {
    out += head_;
    out += R"([],"usage":)";
    JsonWriter json(out);
    write_usage(json, ends.usage);
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
}

// No [DONE] follows: what came is not the whole answer.
void ChunkWriter::take_one(const Failure& failure, std::string& out) const {
  out += "data: ";
  out += write_error(failure).body;
  out += "\n\n";
}

}  // namespace

std::unique_ptr<AnswerWriter> stream_writer(const Request& request) {
  return std::make_unique<ChunkWriter>(request);
}

}  // namespace pons::models::chat
