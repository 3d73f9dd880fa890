#include <algorithm>
#include <span>
#include <unordered_set>

#include <fmt/format.h>

#include "chat/chat.h"
#include "chat/content_out.h"
#include "pons/base/text.h"

namespace pons::models::chat {

namespace {

using Messages = std::span<const Message>;

constexpr std::size_t kCallIdBytesMax = 40;  // OpenAI refuses longer ones

// The same short id wherever the long one stands.
std::string short_id(const std::string& id) {
  if (id.size() <= kCallIdBytesMax) return id;
  return "call_" + sha256_hex(id).substr(0, 32);
}

const ToolResultPart* result_of(const Part& part) {
  return std::get_if<ToolResultPart>(&part.content);
}

class MessageWriter {
 public:
  MessageWriter(JsonWriter& json, const Request& request, Omitted& omitted)
      : json_(json), omitted_(omitted), own_(request.protocol == Protocol::kChat) {}

  Result<void> write_as_they_came(Messages messages);
  Result<void> write_turns(Messages messages);

 private:
  Result<void> write_assistant(Messages turn);
  Result<void> write_assistant_content(Messages turn, bool has_calls);
  void write_calls(Messages turn);
  Result<void> write_others(Messages run);
  Result<void> write_result(const Message& message, const Part& part);
  Result<void> write_media_of_results(const Message& message);
  Result<void> write_rest(const Message& message);
  void write_extras(const Message& message) {
    for (const ExtraField& extra : message.extras) json_.raw_field(extra.name, extra.json);
  }

  JsonWriter& json_;
  Omitted& omitted_;
  bool own_;
  std::unordered_set<std::string_view> open_calls_;  // of the assistant's last turn
};

// Of one protocol, order and borders of messages are the client's business.
Result<void> MessageWriter::write_as_they_came(Messages messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Messages one = messages.subspan(i, 1);
    TRY_VOID(one.front().role == Role::kAssistant ? write_assistant(one) : write_others(one));
  }
  return {};
}

// Here, all calls of a turn stand in one message, and their results follow it at once.
Result<void> MessageWriter::write_turns(Messages messages) {
  while (!messages.empty()) {
    const auto is_assistant = [](const Message& one) { return one.role == Role::kAssistant; };
    const bool first = is_assistant(messages.front());
    const auto border = std::ranges::find_if(
        messages, [&](const Message& one) { return is_assistant(one) != first; });
    const auto count = static_cast<std::size_t>(border - messages.begin());
    TRY_VOID(first ? write_assistant(messages.first(count)) : write_others(messages.first(count)));
    messages = messages.subspan(count);
  }
  if (open_calls_.empty()) return {};
  return refusal(
      fmt::format("messages: the tool call \"{}\" has no result: add one, or remove the call",
                  open_calls_.begin()->substr(0, 64)));
}

Result<void> MessageWriter::write_assistant_content(Messages turn, bool has_calls) {
  std::string joined;
  std::string refused;
  Content own;
  for (const Message& message : turn) {
    Content content;
    for (const Part& part : message.parts) {
      TRY_VOID(expect_known(part));
      if (is_media(part) && !own_)
        return refusal(
            "messages: an image or a document of the assistant has no place in chat, "
            "which this model's provider speaks: let the user send it");
      const auto* const text = std::get_if<TextPart>(&part.content);
      const auto* const opaque = std::get_if<OpaquePart>(&part.content);
      if (text && !text->citations.empty() && !own_) omit(omitted_, "citations");
      if (const auto* one = std::get_if<RefusalPart>(&part.content); one && !own_)
        refused += one->text;
      else if (is_text(part) || is_media(part) || (opaque && opaque->type != "audio"))
        content.push_back(&part);
    }
    const std::string text = own_ ? "" : joined_text(content, "");
    if (!joined.empty() && !text.empty()) joined += "\n\n";
    joined += text;
    if (own_) own = std::move(content);
  }
  if (own_ && own.size() < 2 && !own.empty() && !own.back()->cache)
    if (const auto* one = std::get_if<RefusalPart>(&own.back()->content)) {
      refused = one->text;
      own.clear();
    }
  if (!refused.empty()) json_.field("refusal", refused);
  if (own_ ? own.empty() : joined.empty()) {
    json_.key("content");
    has_calls ? json_.null() : json_.string("");
    return {};
  }
  if (own_) return write_own_content(json_, own);
  json_.field("content", joined);
  return {};
}

void MessageWriter::write_calls(Messages turn) {
  json_.key("tool_calls").begin_array();
  for (const Message& message : turn)
    for (const Part& part : message.parts) {
      const auto* const call = std::get_if<ToolCallPart>(&part.content);
      if (call == nullptr) continue;
      const char* const type = call->free_form ? "custom" : "function";
      json_.begin_object().field("id", own_ ? call->id : short_id(call->id)).field("type", type);
      json_.key(type).begin_object().field("name", call->name);
      if (call->free_form)
        json_.field("input", call->input);
      else
        json_.field("arguments",
                    call->input.empty() && !own_ ? "{}" : std::string_view(call->input));
      json_.end_object().end_object();
      open_calls_.insert(call->id);
    }
  json_.end_array();
}

Result<void> MessageWriter::write_assistant(Messages turn) {
  if (!open_calls_.empty() && !own_)
    return refusal(fmt::format(
        "messages: the tool call \"{}\" has no result before the assistant goes on: add one, or "
        "remove the call",
        open_calls_.begin()->substr(0, 64)));
  std::vector<const ThinkingPart*> thinking;
  bool has_calls = false;
  for (const Message& message : turn)
    for (const Part& part : message.parts) {
      has_calls = has_calls || std::holds_alternative<ToolCallPart>(part.content);
      // Nobody here could check the proof of another author.
      const auto* const one = std::get_if<ThinkingPart>(&part.content);
      if (one && one->author == Protocol::kChat) thinking.push_back(one);
    }
  json_.begin_object().field("role", "assistant");
  TRY_VOID(write_assistant_content(turn, has_calls));
  write_reasoning(json_, thinking);
  if (has_calls) write_calls(turn);
  if (own_ && !turn.front().parts.empty()) {
    const Part& last = turn.front().parts.back();
    if (!is_text(last) && !is_media(last)) write_cache_hint(json_, last.cache);
    for (const Part& part : turn.front().parts)
      if (const auto* opaque = std::get_if<OpaquePart>(&part.content);
          opaque && opaque->type == "audio")
        json_.raw_field("audio", opaque->json);
  }
  if (own_) write_extras(turn.front());
  json_.end_object();
  return {};
}

// Whether a failed result says so itself, in its first word: "Error: …", "<tool_use_error>…".
bool says_error(std::string_view text) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto* const begin = std::ranges::find_if(text, is_word);
  const auto* const end = std::find_if_not(begin, text.end(), is_word);
  constexpr std::string_view kError = "error";
  return !std::ranges::search(std::string_view(begin, end), kError, {}, [](char c) {
            return c >= 'A' && c <= 'Z' ? char(c + 32) : c;
          }).empty();
}

Result<void> MessageWriter::write_result(const Message& message, const Part& part) {
  const ToolResultPart& result = *result_of(part);
  if (!own_ && open_calls_.erase(result.call_id) == 0)
    return refusal(fmt::format(
        "messages: there is a result for \"{}\", which the assistant's turn before it did not "
        "call, or a second one: remove it",
        result.call_id.substr(0, 64)));
  Content content;
  for (const Part& one : result.content) {
    TRY_VOID(expect_known(one));
    content.push_back(&one);
  }
  json_.begin_object().field("role", "tool");
  json_.field("tool_call_id", own_ ? result.call_id : short_id(result.call_id));
  if (own_) {
    TRY_VOID(write_own_content(json_, content));
    write_cache_hint(json_, part.cache);
    write_extras(message);
    json_.end_object();
    return {};
  }
  std::string text = joined_text(content, "\n\n");
  if (result.is_error && !says_error(text)) text.insert(0, text.empty() ? "Error" : "Error: ");
  if (text.empty() && std::ranges::any_of(result.content, is_media))
    text = "The result is in the next message of the user.";
  json_.field("content", text).end_object();
  return {};
}

// A tool's message has no place for media: the user shows them.
Result<void> MessageWriter::write_media_of_results(const Message& message) {
  const auto has_media = [](const Part& part) {
    const auto* const result = result_of(part);
    return result != nullptr && std::ranges::any_of(result->content, is_media);
  };
  if (own_ || std::ranges::none_of(message.parts, has_media)) return {};
  json_.begin_object().field("role", "user").key("content").begin_array();
  for (const Part& part : message.parts) {
    if (!has_media(part)) continue;
    const ToolResultPart& result = *result_of(part);
    json_.begin_object().field("type", "text");
    json_.field("text", fmt::format("This belongs to the result of the tool call {}:",
                                    short_id(result.call_id)));
    json_.end_object();
    for (const Part& one : result.content)
      if (is_media(one)) TRY_VOID(write_part(json_, one, omitted_));
  }
  json_.end_array().end_object();
  return {};
}

Result<void> MessageWriter::write_rest(const Message& message) {
  Content content;
  for (const Part& part : message.parts)
    if (result_of(part) == nullptr) content.push_back(&part);
  if (content.empty() && !message.parts.empty()) return {};
  json_.begin_object();
  // Servers that are not OpenAI's know no developer.
  json_.field("role", message.role == Role::kUser                ? "user"
                      : message.role == Role::kDeveloper && own_ ? "developer"
                                                                 : "system");
  TRY_VOID(own_ ? write_own_content(json_, content) : write_content(json_, content, omitted_));
  if (own_) write_extras(message);
  json_.end_object();
  return {};
}

Result<void> MessageWriter::write_others(Messages run) {
  for (const Message& message : run)
    for (const Part& part : message.parts) {
      if (result_of(part) != nullptr) TRY_VOID(write_result(message, part));
    }
  for (const Message& message : run) {
    TRY_VOID(write_media_of_results(message));
    TRY_VOID(write_rest(message));
  }
  return {};
}

}  // namespace

Result<void> write_messages(JsonWriter& json, const Request& request, Omitted& omitted) {
  MessageWriter writer(json, request, omitted);
  json.key("messages").begin_array();
  TRY_VOID(request.protocol == Protocol::kChat ? writer.write_as_they_came(request.messages)
                                               : writer.write_turns(request.messages));
  json.end_array();
  return {};
}

}  // namespace pons::models::chat
