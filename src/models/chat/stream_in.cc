#include <utility>

#include <fmt/format.h>

#include "chat/chat.h"
#include "chat/stream_parts.h"
#include "pons/base/text.h"
#include "shared_document.h"

namespace pons::models::chat {

namespace {

using Kind = StreamParts::Kind;

class ChunkReader final : public AnswerReader {
 public:
  Result<void> feed(const http::ServerEvent& event, const AnswerSink& sink) override;
  Result<void> finish(const AnswerSink& sink) override;

 private:
  Result<void> take_choice(const JsonNode& root, const JsonNode& choice, const AnswerSink& sink);
  Result<void> take_delta(const JsonNode& delta, const AnswerSink& sink);
  Result<void> take_content(const JsonNode& content, const AnswerSink& sink);
  Result<void> take_reasoning(const JsonNode& delta, const AnswerSink& sink);
  Result<void> take_tool(const JsonNode& call, const AnswerSink& sink);
  Result<void> take_notes(const JsonNode& delta, const AnswerSink& sink);
  Result<void> take_detail(const JsonNode& detail, const AnswerSink& sink);
  Result<void> begin(const JsonNode& root, const AnswerSink& sink);
  Result<void> end(const AnswerSink& sink);
  void fail(Failure failure, const AnswerSink& sink);

  StreamParts parts_;
  std::string detailed_;  // of the thinking's text, as its details have it
  Usage usage_;
  Ending ending_;
  bool began_ = false;
  bool ending_seen_ = false;
  bool over_ = false;
};

void ChunkReader::fail(Failure failure, const AnswerSink& sink) {
  over_ = true;
  sink(std::move(failure));
}

Result<void> ChunkReader::feed(const http::ServerEvent& event, const AnswerSink& sink) {
  const std::string_view data = trim(event.data);
  if (over_ || data.empty()) return {};
  if (data == "[DONE]") return end(sink);
  const JsonNode root = TRY(shared_document(data).parse(data));
  TRY_VOID(root.expect_object());
  if (auto failure = find_failure(root)) {
    fail(std::move(*failure), sink);
    return {};
  }
  if (const auto usage = root.find("usage"); usage && usage->is_object())
    usage_ = read_usage(*usage);
  const auto choices = root.find("choices");
  if (!choices) return {};
  return choices->for_each([&](const JsonNode& choice) -> Result<void> {
    if (TRY(choice.integer_at("index")).value_or(0) != 0) return {};
    return take_choice(root, choice, sink);
  });
}

Result<void> ChunkReader::begin(const JsonNode& root, const AnswerSink& sink) {
  if (began_) return {};
  began_ = true;
  AnswerBegins begins{.id = std::string(TRY(root.string_or("id", ""))),
                      .model = std::string(TRY(root.string_or("model", ""))),
                      .usage = usage_};
  if (begins.id.empty()) begins.id = made_id("chatcmpl-");
  sink(std::move(begins));
  return {};
}

Result<void> ChunkReader::take_choice(const JsonNode& root, const JsonNode& choice,
                                      const AnswerSink& sink) {
  if (over_) return {};
  TRY_VOID(begin(root, sink));
  // Moonshot's place for it.
  if (const auto usage = choice.find("usage"); usage && usage->is_object())
    usage_ = read_usage(*usage);
  if (const auto delta = choice.find("delta")) TRY_VOID(take_delta(*delta, sink));
  const std::string_view reason = TRY(choice.string_or("finish_reason", ""));
  if (reason.empty()) return {};
  if (is_failed_ending(reason)) {
    fail({.kind = Failing::kUpstream,
          .message = fmt::format("the provider gave up: \"{}\"", reason)},
         sink);
    return {};
  }
  if (!ending_seen_) ending_ = read_ending(reason, choice);
  ending_seen_ = true;
  return {};
}

Result<void> ChunkReader::take_delta(const JsonNode& delta, const AnswerSink& sink) {
  TRY_VOID(take_reasoning(delta, sink));
  if (const auto content = delta.find("content")) TRY_VOID(take_content(*content, sink));
  const std::string_view refused = TRY(delta.string_or("refusal", ""));
  TRY_VOID(parts_.grow(Kind::kRefusal, refused, sink));
  TRY_VOID(take_notes(delta, sink));
  if (const auto calls = delta.find("tool_calls"))
    TRY_VOID(calls->for_each(
        [&](const JsonNode& call) -> Result<void> { return take_tool(call, sink); }));
  if (const auto old = delta.find("function_call")) {
    const std::string input = TRY(read_arguments(*old, "arguments"));
    const std::string_view name = TRY(old->string_or("name", ""));
    TRY_VOID(parts_.grow_tool({.index = 0, .id = {}, .name = name, .input = input}, sink));
  }
  return {};
}

Result<void> ChunkReader::take_content(const JsonNode& content, const AnswerSink& sink) {
  if (!content.is_array()) return parts_.grow(Kind::kText, TRY(content.as_string()), sink);
  // A list where a server separates thinking from text.
  return content.for_each([&](const JsonNode& part) -> Result<void> {
    if (const auto thinking = part.find("thinking"))
      return thinking->for_each([&](const JsonNode& piece) -> Result<void> {
        return parts_.grow(Kind::kThinking, TRY(piece.string_or("text", "")), sink);
      });
    return parts_.grow(Kind::kText, TRY(part.string_or("text", "")), sink);
  });
}

Result<void> ChunkReader::take_reasoning(const JsonNode& delta, const AnswerSink& sink) {
  // Some servers send both names with the same text.
  std::string_view text = TRY(delta.string_or("reasoning_content", ""));
  if (text.empty()) text = TRY(delta.string_or("reasoning", ""));
  return parts_.grow(Kind::kThinking, text, sink);
}

Result<void> ChunkReader::take_notes(const JsonNode& delta, const AnswerSink& sink) {
  if (const auto annotations = delta.find("annotations"))
    TRY_VOID(annotations->for_each([&](const JsonNode& one) -> Result<void> {
      return parts_.note(Kind::kText, one.raw(), sink);
    }));
  if (const auto details = delta.find("reasoning_details"))
    TRY_VOID(details->for_each(
        [&](const JsonNode& one) -> Result<void> { return take_detail(one, sink); }));
  return {};
}

// What is sealed comes whole. A text, which has also come as `reasoning`, comes in pieces, and what
// is signed with the last one is all of it.
Result<void> ChunkReader::take_detail(const JsonNode& detail, const AnswerSink& sink) {
  constexpr std::size_t kTextBytesMax = std::size_t{16} << 20;
  const std::string_view type = TRY(detail.string_or("type", ""));
  if (type == "reasoning.encrypted") return parts_.note(Kind::kThinking, detail.raw(), sink);
  if (type != "reasoning.text") return {};
  detailed_ += TRY(detail.string_or("text", ""));
  if (detailed_.size() > kTextBytesMax)
    return make_error(ErrorCode::kInvalid, "read answer", "the answer's reasoning is too long");
  if (TRY(detail.string_or("signature", "")).empty()) return {};
  std::string whole;
  JsonWriter json(whole);
  json.begin_object().field("type", type).field("text", std::exchange(detailed_, {}));
  TRY_VOID(detail.for_each_field([&](std::string_view key, const JsonNode& value) -> Result<void> {
    if (key != "type" && key != "text") json.raw_field(key, value.raw());
    return {};
  }));
  json.end_object();
  return parts_.note(Kind::kThinking, std::move(whole), sink);
}

Result<void> ChunkReader::take_tool(const JsonNode& call, const AnswerSink& sink) {
  const auto custom = call.find("custom");
  const auto function = custom ? custom : call.find("function");
  StreamParts::ToolDelta delta{.index = TRY(call.integer_at("index")),
                               .id = TRY(call.string_or("id", "")),
                               .name = {},
                               .input = {},
                               .free_form = custom.has_value()};
  if (!function) return parts_.grow_tool(delta, sink);
  delta.name = TRY(function->string_or("name", ""));
  const std::string input = TRY(read_arguments(*function, custom ? "input" : "arguments"));
  delta.input = input;
  return parts_.grow_tool(delta, sink);
}

Result<void> ChunkReader::end(const AnswerSink& sink) {
  if (!began_) return make_error(ErrorCode::kInvalid, "read answer", "the answer is empty");
  TRY_VOID(parts_.end(sink));
  over_ = true;
  sink(AnswerEnds{
      .stop = stop_of_parts(ending_.stop, parts_.has(Kind::kTool), parts_.has(Kind::kRefusal)),
      .stop_sequence = ending_.stop_sequence,
      .usage = usage_});
  return {};
}

Result<void> ChunkReader::finish(const AnswerSink& sink) {
  if (over_) return {};
  if (ending_seen_) return end(sink);
  return make_error(ErrorCode::kInvalid, "read answer",
                    "the stream ended before the answer was whole");
}

}  // namespace

std::unique_ptr<AnswerReader> stream_reader() {
  return std::make_unique<ChunkReader>();
}

}  // namespace pons::models::chat
