#include "chat/content_out.h"

#include <algorithm>

#include <fmt/format.h>

namespace pons::models::chat {

namespace {

using Source = MediaPart::Source;

std::string data_url(const MediaPart& media) {
  return fmt::format("data:{};base64,{}", media.media_type, media.data);
}

void write_text(JsonWriter& json, std::string_view text) {
  json.field("type", "text").field("text", text);
}

void write_image(JsonWriter& json, const MediaPart& media) {
  json.field("type", "image_url").key("image_url").begin_object();
  json.field("url", media.source == Source::kUrl ? media.data : data_url(media));
  if (!media.detail.empty()) json.field("detail", media.detail);
  json.end_object();
}

// Else its reader would take the data for something else.
bool is_known_as_base64(std::string_view data) {
  return !data.starts_with("http") && !data.starts_with("data:");
}

void write_file(JsonWriter& json, const MediaPart& media, std::string_view name) {
  json.field("type", "file").key("file").begin_object();
  if (media.source == Source::kFile)
    json.field("file_id", media.data);
  else
    json.field("file_data", media.source == Source::kUrl ||
                                    (media.media_type.empty() && is_known_as_base64(media.data))
                                ? media.data
                                : data_url(media));
  if (!name.empty()) json.field("filename", name);
  json.end_object();
}

Result<void> expect_place(const MediaPart& media) {
  const bool image = media.kind == MediaPart::Kind::kImage;
  if (image && media.source == Source::kFile)
    return refusal(
        "an image by its file id has no place in chat, which this model's provider speaks: send "
        "the image as base64 or by its URL");
  if (image) return {};
  if (media.source == Source::kUrl)
    return refusal(
        "a document by its URL has no place in chat, which this model's provider speaks: send it "
        "as base64");
  if (media.source == Source::kFile && !media.data.starts_with("file-"))
    return refusal(
        "a document by the file id of another provider cannot be read by this model's provider: "
        "send it as base64");
  return {};
}

bool is_text_document(const MediaPart& media) {
  return media.source == Source::kText;
}

void append_text(std::string& out, const Part& part) {
  if (const auto* text = std::get_if<TextPart>(&part.content)) {
    out += text->text;
  } else if (const auto* refused = std::get_if<RefusalPart>(&part.content)) {
    out += refused->text;
  } else if (const auto* media = std::get_if<MediaPart>(&part.content)) {
    if (!media->name.empty()) out += fmt::format("Document \"{}\"\n", media->name);
    if (!media->context.empty()) out += media->context + "\n";
    if (!media->name.empty() || !media->context.empty()) out += "\n";
    out += media->data;
  }
}

bool is_plain_text(const Part& part) {
  return std::holds_alternative<TextPart>(part.content) && !part.cache;
}

}  // namespace

void write_cache_hint(JsonWriter& json, const std::optional<CacheHint>& cache) {
  if (!cache) return;
  json.key("cache_control").begin_object().field("type", "ephemeral");
  if (cache->one_hour) json.field("ttl", "1h");
  json.end_object();
}

Result<void> write_own_content(JsonWriter& json, const Content& content) {
  json.key("content");
  if (content.empty() || (content.size() == 1 && is_plain_text(*content.front()))) {
    json.string(content.empty() ? "" : std::get<TextPart>(content.front()->content).text);
    return {};
  }
  json.begin_array();
  for (const Part* const part : content) {
    if (const auto* opaque = std::get_if<OpaquePart>(&part->content)) {
      TRY_VOID(expect_known(*part));
      json.raw(opaque->json);
      continue;
    }
    json.begin_object();
    if (const auto* text = std::get_if<TextPart>(&part->content))
      write_text(json, text->text);
    else if (const auto* refused = std::get_if<RefusalPart>(&part->content))
      json.field("type", "refusal").field("refusal", refused->text);
    else if (const auto* media = std::get_if<MediaPart>(&part->content))
      media->kind == MediaPart::Kind::kImage ? write_image(json, *media)
                                             : write_file(json, *media, media->name);
    write_cache_hint(json, part->cache);
    json.end_object();
  }
  json.end_array();
  return {};
}

bool is_text(const Part& part) {
  if (const auto* media = std::get_if<MediaPart>(&part.content)) return is_text_document(*media);
  return std::holds_alternative<TextPart>(part.content) ||
         std::holds_alternative<RefusalPart>(part.content);
}

bool is_media(const Part& part) {
  const auto* const media = std::get_if<MediaPart>(&part.content);
  return media != nullptr && !is_text_document(*media);
}

std::string joined_text(const Content& content, std::string_view separator) {
  std::string joined;
  for (const Part* const part : content) {
    if (!is_text(*part)) continue;
    const std::size_t before = joined.size();
    if (!joined.empty()) joined += separator;
    const std::size_t begin = joined.size();
    append_text(joined, *part);
    if (joined.size() == begin) joined.resize(before);
  }
  return joined;
}

Result<void> expect_known(const Part& part) {
  const auto* const opaque = std::get_if<OpaquePart>(&part.content);
  if (opaque == nullptr || opaque->protocol == Protocol::kChat) return {};
  return refusal(
      fmt::format("messages: \"{}\" is known to providers that speak {} only, and this model's "
                  "provider speaks chat: remove it or choose another model",
                  opaque->type, name_of(opaque->protocol)));
}

Result<void> write_part(JsonWriter& json, const Part& part, Omitted& omitted) {
  TRY_VOID(expect_known(part));
  const auto* const media = std::get_if<MediaPart>(&part.content);
  if (media != nullptr && media->with_citations) omit(omitted, "citations");
  if (is_text(part)) {
    std::string text;
    append_text(text, part);
    json.begin_object();
    write_text(json, text);
    json.end_object();
    return {};
  }
  if (media == nullptr) return {};
  TRY_VOID(expect_place(*media));
  if (!media->context.empty()) {
    json.begin_object();
    write_text(json, media->context);
    json.end_object();
  }
  json.begin_object();
  if (media->kind == MediaPart::Kind::kImage)
    write_image(json, *media);
  else
    write_file(json, *media,  // with data, the provider wants a name
               media->name.empty() && media->source == Source::kBase64
                   ? "document.pdf"
                   : std::string_view(media->name));
  json.end_object();
  return {};
}

Result<void> write_content(JsonWriter& json, const Content& content, Omitted& omitted) {
  json.key("content");
  for (const Part* const part : content) TRY_VOID(expect_known(*part));
  if (std::ranges::none_of(content, [](const Part* part) { return is_media(*part); })) {
    for (const Part* const part : content)
      if (const auto* media = std::get_if<MediaPart>(&part->content);
          media && media->with_citations)
        omit(omitted, "citations");
    json.string(joined_text(content, "\n\n"));
    return {};
  }
  json.begin_array();
  for (const Part* const part : content) TRY_VOID(write_part(json, *part, omitted));
  json.end_array();
  return {};
}

}  // namespace pons::models::chat
