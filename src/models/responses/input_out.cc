#include <algorithm>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "responses/responses.h"

namespace pons::models::responses {

namespace {

Error refused(std::string message) {
  return make_error(ErrorCode::kInvalid, "write request", std::move(message));
}

std::string_view name_of(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kDeveloper:
      return "developer";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      break;
  }
  return "assistant";
}

class InputWriter {
 public:
  InputWriter(JsonWriter& json, const Request& request, Omitted& omitted)
      : json_(json), omitted_(omitted), is_own_(request.protocol == Protocol::kResponses) {}

  Result<void> write(const Message& message) {
    const std::span<const Part> parts = message.parts;
    if (parts.empty()) return write_message(message, parts);
    std::size_t begin = 0;  // of the run of content that becomes one message
    for (std::size_t at = 0; at < parts.size(); ++at) {
      if (is_content(parts[at])) continue;
      if (at > begin) TRY_VOID(write_message(message, parts.subspan(begin, at - begin)));
      begin = at + 1;
      TRY_VOID(write_item(parts[at]));
    }
    if (begin < parts.size()) return write_message(message, parts.subspan(begin));
    return {};
  }

  Result<void> expect_all_answered() const {
    if (is_own_ || open_calls_.empty()) return {};
    return refused(fmt::format("the tool call \"{}\" has no result; send one with each call",
                               open_calls_.begin()->first));
  }

 private:
  static bool is_content(const Part& part) {
    if (const auto* opaque = std::get_if<OpaquePart>(&part.content))
      return opaque->protocol == Protocol::kResponses && is_content_type(opaque->type);
    return std::holds_alternative<TextPart>(part.content) ||
           std::holds_alternative<RefusalPart>(part.content) ||
           std::holds_alternative<MediaPart>(part.content);
  }

  Result<void> write_message(const Message& message, std::span<const Part> parts) {
    json_.begin_object().field("type", "message").field("role", name_of(message.role));
    json_.key("content");
    TRY_VOID(write_contents(parts, message.role));
    if (is_own_)
      for (const ExtraField& extra : message.extras) json_.raw_field(extra.name, extra.json);
    json_.end_object();
    return {};
  }

  // A lone text is a string: every server knows that form.
  Result<void> write_contents(std::span<const Part> parts, Role role) {
    if (parts.size() == 1 && !(is_own_ && parts[0].cache))
      if (const auto* text = std::get_if<TextPart>(&parts[0].content);
          text != nullptr && text->citations.empty()) {
        json_.string(text->text);
        return {};
      }
    json_.begin_array();
    for (const Part& part : parts) TRY_VOID(write_content(part, role));
    json_.end_array();
    return {};
  }

  Result<void> write_content(const Part& part, Role role) {
    if (const auto* opaque = std::get_if<OpaquePart>(&part.content)) {
      json_.raw(opaque->json);
      return {};
    }
    if (const auto* media = std::get_if<MediaPart>(&part.content)) {
      TRY_VOID(check_media(*media));
      if (!media->context.empty()) write_text(media->context, role);
      if (media->source == MediaPart::Source::kText) {
        if (!media->name.empty()) write_text(media->name, role);
        write_text(media->data, role);
        return {};
      }
      json_.begin_object();
      media->kind == MediaPart::Kind::kImage ? write_image(*media) : write_document(*media);
    } else if (const auto* refusal = std::get_if<RefusalPart>(&part.content);
               refusal != nullptr && role == Role::kAssistant) {
      json_.begin_object().field("type", "refusal").field("refusal", refusal->text);
    } else if (refusal != nullptr) {
      open_text(refusal->text, role);
    } else if (const auto* text = std::get_if<TextPart>(&part.content)) {
      open_text(text->text, role);
      if (role == Role::kAssistant) write_annotations(*text);
    }
    if (is_own_ && part.cache)
      json_.key("prompt_cache_breakpoint").begin_object().field("mode", "explicit").end_object();
    json_.end_object();
    return {};
  }

  void open_text(std::string_view text, Role role) {
    json_.begin_object().field("type", role == Role::kAssistant ? "output_text" : "input_text");
    json_.field("text", text);
  }

  void write_text(std::string_view text, Role role) {
    open_text(text, role);
    json_.end_object();
  }

  void write_annotations(const TextPart& text) {
    const bool is_native = text.cited_in == Protocol::kResponses && !text.citations.empty();
    json_.raw_field("annotations", is_native ? text.citations : "[]");
    if (!is_native && !text.citations.empty()) omit("citations");
  }

  static Result<void> check_media(const MediaPart& media) {
    if (media.with_citations)
      return refused(
          "citations: a provider of the Responses protocol cannot cite documents; ask without "
          "them, or choose a model of another provider");
    return {};
  }

  void write_image(const MediaPart& media) {
    json_.field("type", "input_image");
    if (media.source == MediaPart::Source::kFile)
      json_.field("file_id", media.data);
    else if (media.source == MediaPart::Source::kUrl)
      json_.field("image_url", media.data);
    else
      json_.field("image_url", data_url(media));
    if (!media.detail.empty()) json_.field("detail", media.detail);
  }

  void write_document(const MediaPart& media) {
    json_.field("type", "input_file");
    std::string_view name = media.name;
    if (media.source == MediaPart::Source::kFile) {
      json_.field("file_id", media.data);
    } else if (media.source == MediaPart::Source::kUrl) {
      json_.field("file_url", media.data);
      if (!is_own_) name = {};  // the service takes it from the URL
    } else {
      const bool is_bare = media.media_type.empty() && !media.data.starts_with("data:");
      json_.field("file_data", is_bare ? media.data : data_url(media));
      if (name.empty() && !is_own_) name = "document.pdf";
    }
    if (!name.empty()) json_.field("filename", name);
    if (!media.detail.empty()) json_.field("detail", media.detail);
  }

  static std::string data_url(const MediaPart& media) {
    return fmt::format("data:{};base64,{}", media.media_type, media.data);
  }

  Result<void> write_item(const Part& part) {
    if (const auto* call = std::get_if<ToolCallPart>(&part.content)) {
      write_call(*call);
      return {};
    }
    if (const auto* result = std::get_if<ToolResultPart>(&part.content))
      return write_result(*result);
    if (const auto* opaque = std::get_if<OpaquePart>(&part.content)) {
      if (opaque->protocol != Protocol::kResponses)
        return refused(fmt::format(
            "\"{}\" is known to providers of {} only; leave it out of the conversation, or go on "
            "with a model of such a provider",
            opaque->type, models::name_of(opaque->protocol)));
      json_.raw(opaque->json);
      return {};
    }
    // Reasoning of others cannot be verified here, and what is not kept needs its proof.
    const auto& thinking = std::get<ThinkingPart>(part.content);
    if (thinking.author == Protocol::kResponses)
      write_reasoning(json_, thinking, "", is_own_ ? Proven::kAny : Proven::kOnly);
    return {};
  }

  void write_call(const ToolCallPart& call) {
    open_calls_[call.id] = call.free_form;
    json_.begin_object().field("type", call.free_form ? "custom_tool_call" : "function_call");
    json_.field("call_id", call.id).field("name", call.name);
    if (!call.space.empty()) json_.field("namespace", call.space);
    if (call.free_form)
      json_.field("input", call.input);
    else
      json_.field("arguments", call.input.empty() && !is_own_ ? "{}" : call.input);
    json_.end_object();
  }

  Result<void> write_result(const ToolResultPart& result) {
    const auto call = open_calls_.find(result.call_id);
    if (call == open_calls_.end() && !is_own_)
      return refused(
          fmt::format("the tool result for \"{}\" answers no call that stands before it; send both",
                      result.call_id));
    if (result.is_error) omit("is_error");
    // Not every protocol says of a result what kind of call it answers.
    const bool free_form = is_own_ ? result.free_form : call->second;
    if (call != open_calls_.end()) open_calls_.erase(call);
    json_.begin_object();
    json_.field("type", free_form ? "custom_tool_call_output" : "function_call_output");
    json_.field("call_id", result.call_id).key("output");
    if (result.content.empty() && !is_own_)
      json_.string("");
    else
      TRY_VOID(write_contents(result.content, Role::kUser));
    json_.end_object();
    return {};
  }

  void omit(std::string_view name) {
    if (std::ranges::find(omitted_, name) == omitted_.end()) omitted_.emplace_back(name);
  }

  JsonWriter& json_;
  Omitted& omitted_;
  bool is_own_;
  std::unordered_map<std::string_view, bool> open_calls_;  // without a result; free-form or not
};

}  // namespace

Result<void> write_input(JsonWriter& json, const Request& request, Omitted& omitted) {
  InputWriter writer(json, request, omitted);
  const std::size_t said_apart = instructions_of(request) ? 1 : 0;
  for (std::size_t at = said_apart; at < request.messages.size(); ++at)
    TRY_VOID(writer.write(request.messages[at]));
  return writer.expect_all_answered();
}

}  // namespace pons::models::responses
