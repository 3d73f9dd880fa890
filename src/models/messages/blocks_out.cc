#include "messages/blocks_out.h"

#include <algorithm>

namespace pons::models::messages {

namespace {

bool has(const std::vector<ExtraField>& extras, std::string_view name) {
  return std::ranges::find(extras, name, &ExtraField::name) != extras.end();
}

void write_text(JsonWriter& json, const TextPart& text) {
  json.field("type", "text").field("text", text.text);
  if (!text.citations.empty() && text.cited_in == Protocol::kMessages)
    json.raw_field("citations", text.citations);
}

void write_source(JsonWriter& json, const MediaPart& media) {
  json.key("source").begin_object();
  switch (media.source) {
    case MediaPart::Source::kBase64:
    case MediaPart::Source::kText:
      json.field("type", media.source == MediaPart::Source::kText ? "text" : "base64");
      if (!media.media_type.empty()) json.field("media_type", media.media_type);
      json.field("data", media.data);
      break;
    case MediaPart::Source::kUrl:
      json.field("type", "url").field("url", media.data);
      break;
    case MediaPart::Source::kFile:
      json.field("type", "file").field("file_id", media.data);
      break;
  }
  json.end_object();
}

void write_media(JsonWriter& json, const MediaPart& media, const std::vector<ExtraField>& extras) {
  const bool is_document = media.kind == MediaPart::Kind::kDocument;
  json.field("type", is_document ? "document" : "image");
  if (!has(extras, "source")) write_source(json, media);
  if (!is_document) return;
  if (!media.name.empty()) json.field("title", media.name);
  if (!media.context.empty()) json.field("context", media.context);
  if (media.with_citations && !has(extras, "citations"))
    json.key("citations").begin_object().field("enabled", true).end_object();
}

void write_thinking(JsonWriter& json, const ThinkingPart& thinking) {
  if (thinking.redacted) {
    json.field("type", "redacted_thinking").field("data", thinking.proof);
    return;
  }
  json.field("type", "thinking").field("thinking", thinking.text);
  json.field("signature", thinking.proof);
}

void write_tool_use(JsonWriter& json, const ToolCallPart& call) {
  json.field("type", "tool_use").field("id", call.id).field("name", call.name);
  json.raw_field("input", call.input.empty() ? "{}" : std::string_view(call.input));
}

void write_tool_result(JsonWriter& json, const ToolResultPart& result, Extras extras) {
  json.field("type", "tool_result").field("tool_use_id", result.call_id);
  if (!result.content.empty()) {
    json.key("content");
    write_content(json, result.content, extras);
  }
  if (result.is_error) json.field("is_error", true);
}

bool is_written(const Part& part) {
  if (const auto* thinking = std::get_if<ThinkingPart>(&part.content))
    return thinking->author == Protocol::kMessages;
  const auto* opaque = std::get_if<OpaquePart>(&part.content);
  return opaque == nullptr || opaque->protocol == Protocol::kMessages;
}

}  // namespace

void write_block(JsonWriter& json, const Part& part, Extras extras) {
  static const std::vector<ExtraField> kNone;
  if (!is_written(part)) return;
  if (const auto* opaque = std::get_if<OpaquePart>(&part.content)) {
    json.raw(opaque->json);
    return;
  }
  const auto& kept = extras == Extras::kKept ? part.extras : kNone;
  json.begin_object();
  if (const auto* text = std::get_if<TextPart>(&part.content))
    write_text(json, *text);
  else if (const auto* refusal = std::get_if<RefusalPart>(&part.content))
    json.field("type", "text").field("text", refusal->text);
  else if (const auto* media = std::get_if<MediaPart>(&part.content))
    write_media(json, *media, kept);
  else if (const auto* thinking = std::get_if<ThinkingPart>(&part.content))
    write_thinking(json, *thinking);
  else if (const auto* call = std::get_if<ToolCallPart>(&part.content))
    write_tool_use(json, *call);
  else if (const auto* result = std::get_if<ToolResultPart>(&part.content))
    write_tool_result(json, *result, extras);
  write_cache(json, part.cache, kept);
  write_extras(json, kept);
  json.end_object();
}

bool is_plain_text(const Part& part, Extras extras) {
  const auto* text = std::get_if<TextPart>(&part.content);
  return text != nullptr && text->citations.empty() && !part.cache &&
         (extras == Extras::kLeft || part.extras.empty());
}

void write_content(JsonWriter& json, const std::vector<Part>& parts, Extras extras) {
  if (parts.size() == 1 && is_plain_text(parts[0], extras)) {
    json.string(std::get<TextPart>(parts[0].content).text);
    return;
  }
  json.begin_array();
  for (const Part& part : parts) write_block(json, part, extras);
  json.end_array();
}

void write_cache(JsonWriter& json, const std::optional<CacheHint>& cache,
                 const std::vector<ExtraField>& extras) {
  if (!cache || has(extras, "cache_control")) return;
  json.key("cache_control").begin_object().field("type", "ephemeral");
  if (cache->one_hour) json.field("ttl", "1h");
  json.end_object();
}

void write_extras(JsonWriter& json, const std::vector<ExtraField>& extras) {
  for (const ExtraField& extra : extras) json.raw_field(extra.name, extra.json);
}

}  // namespace pons::models::messages
