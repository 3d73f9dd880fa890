#include <array>
#include <utility>

#include <fmt/format.h>

#include "chat/chat.h"
#include "pons/base/id.h"

namespace pons::models::chat {

namespace {

using Word = std::pair<std::string_view, Stop>;
// OpenAI's, and those of compatible servers that took theirs from elsewhere.
constexpr std::array<Word, 10> kFinishReasons = {{{"stop", Stop::kEnd},
                                                  {"length", Stop::kMaxTokens},
                                                  {"tool_calls", Stop::kToolUse},
                                                  {"function_call", Stop::kToolUse},
                                                  {"content_filter", Stop::kRefusal},
                                                  {"max_tokens", Stop::kMaxTokens},
                                                  {"tool_use", Stop::kToolUse},
                                                  {"refusal", Stop::kRefusal},
                                                  {"safety", Stop::kRefusal},
                                                  {"model_length", Stop::kContextWindow}}};

// A list where a server separates thinking from text: [{"type":"thinking","thinking":[…]}, …].
Result<void> read_answer_content(const JsonNode& content, std::vector<Part>& parts) {
  if (!content.is_array()) return read_content(content, parts);
  return content.for_each([&](const JsonNode& part) -> Result<void> {
    const std::string_view type = TRY(part.string_or("type", ""));
    if (type == "text") {
      if (const auto text = TRY(part.string_at("text")); !text.empty())
        parts.push_back({.content = TextPart{.text = std::string(text)}});
    } else if (type == "thinking") {
      ThinkingPart thinking{.author = Protocol::kChat};
      const JsonNode pieces = TRY(part.at("thinking"));
      TRY_VOID(pieces.for_each([&](const JsonNode& piece) -> Result<void> {
        thinking.text += TRY(piece.string_or("text", ""));
        return {};
      }));
      parts.push_back({.content = std::move(thinking)});
    }
    return {};
  });
}

void read_annotations(const JsonNode& message, std::vector<Part>& parts) {
  const auto annotations = message.find("annotations");
  if (!annotations || !annotations->is_array()) return;
  std::string json = annotations->raw();
  if (json == "[]") return;
  for (Part& part : parts)
    if (auto* text = std::get_if<TextPart>(&part.content)) {
      text->citations = std::move(json);
      text->cited_in = Protocol::kChat;
      return;
    }
}

Result<bool> read_calls(const JsonNode& message, std::vector<Part>& parts) {
  bool any = false;
  const auto take = [&](ToolCallPart call) {
    if (call.id.empty()) call.id = made_id("call_");
    parts.push_back({.content = std::move(call)});
    any = true;
  };
  if (const auto calls = message.find("tool_calls"))
    TRY_VOID(calls->for_each([&](const JsonNode& call) -> Result<void> {
      take(TRY(read_tool_call(call)));
      return {};
    }));
  if (const auto old = message.find("function_call"); old && !any) {
    ToolCallPart call;
    call.name = TRY(old->string_at("name"));
    call.input = TRY(read_arguments(*old, "arguments"));
    take(std::move(call));
  }
  return any;
}

Result<void> read_choice(const JsonNode& choice, Answer& answer) {
  const JsonNode message = TRY(choice.at("message"));
  TRY_VOID(message.expect_object());
  TRY_VOID(read_reasoning(message, answer.parts));
  if (const auto content = message.find("content"))
    TRY_VOID(read_answer_content(*content, answer.parts));
  read_annotations(message, answer.parts);
  const std::string_view refused = TRY(message.string_or("refusal", ""));
  if (!refused.empty())
    answer.parts.push_back({.content = RefusalPart{.text = std::string(refused)}});
  const bool has_calls = TRY(read_calls(message, answer.parts));
  const std::string_view reason = TRY(choice.string_or("finish_reason", ""));
  if (is_failed_ending(reason))
    return choice.error(fmt::format("the provider gave up: \"{}\"", reason));
  Ending ending = read_ending(reason, choice);
  answer.stop = stop_of_parts(ending.stop, has_calls, !refused.empty());
  answer.stop_sequence = std::move(ending.stop_sequence);
  return {};
}

}  // namespace

std::string made_id(std::string_view prefix) {
  return std::string(prefix) + random_text(24);
}

bool is_failed_ending(std::string_view finish_reason) {
  return finish_reason == "error" || finish_reason == "abort" ||
         finish_reason == "insufficient_system_resource";
}

Ending read_ending(std::string_view finish_reason, const JsonNode& choice) {
  Ending ending;
  for (const auto& [word, stop] : kFinishReasons)
    if (word == finish_reason) ending.stop = stop;
  if (ending.stop != Stop::kEnd) return ending;
  // Servers that say which sequence it was do it here.
  for (const char* const key : {"stop_reason", "matched_stop"})
    if (const auto said = choice.find(key); said && said->is_string()) {
      ending.stop = Stop::kStopSequence;
      ending.stop_sequence = said->as_string().value();
      return ending;
    }
  return ending;
}

Stop stop_of_parts(Stop said, bool has_calls, bool has_refusal) {
  if (said != Stop::kEnd) return said;
  if (has_calls) return Stop::kToolUse;
  return has_refusal ? Stop::kRefusal : said;
}

std::string_view finish_reason_of(Stop stop) {
  switch (stop) {
    case Stop::kEnd:
    case Stop::kStopSequence:
    case Stop::kPause:
      return "stop";
    case Stop::kMaxTokens:
    case Stop::kContextWindow:
      return "length";
    case Stop::kToolUse:
      return "tool_calls";
    case Stop::kRefusal:
      return "content_filter";
  }
  return "stop";
}

Result<Answer> read_answer(std::string_view body) {
  JsonDocument document;
  const JsonNode root = TRY(document.parse(body));
  TRY_VOID(root.expect_object());
  if (const auto failure = find_failure(root))
    return root.error("the provider failed: " + failure->message);
  Answer answer;
  answer.id = TRY(root.string_or("id", ""));
  if (answer.id.empty()) answer.id = made_id("chatcmpl-");
  answer.model = TRY(root.string_or("model", ""));
  if (const auto usage = root.find("usage")) answer.usage = read_usage(*usage);
  const JsonNode choices = TRY(root.at("choices"));
  bool is_first = true;  // of several, the client has asked for none
  TRY_VOID(choices.for_each([&](const JsonNode& choice) -> Result<void> {
    return std::exchange(is_first, false) ? read_choice(choice, answer) : Result<void>();
  }));
  if (is_first) return choices.error("must not be empty");
  return answer;
}

}  // namespace pons::models::chat
