#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "chat/chat.h"

namespace pons::models::chat {

namespace {

// Only this protocol's providers can read these; writers of others refuse them by their name.
constexpr std::array<std::string_view, 4> kOpaqueTypes = {"input_audio", "audio_url", "video_url",
                                                          "input_video"};

struct DataUrl {
  std::string_view media_type;
  std::string_view data;
};

// Nothing: the text is no data: URL.
Result<std::optional<DataUrl>> read_data_url(const JsonNode& url) {
  constexpr std::string_view kScheme = "data:";
  constexpr std::string_view kBase64 = ";base64";
  std::string_view text = TRY(url.as_string());
  if (!text.starts_with(kScheme)) return std::optional<DataUrl>();
  text.remove_prefix(kScheme.size());
  const auto comma = text.find(',');
  if (comma == std::string_view::npos) return url.error("a data: URL needs a comma");
  std::string_view head = text.substr(0, comma);
  if (!head.ends_with(kBase64)) return url.error("a data: URL must be base64");
  head.remove_suffix(kBase64.size());
  return std::optional(DataUrl{.media_type = head, .data = text.substr(comma + 1)});
}

Result<void> read_source(const JsonNode& url, MediaPart& media) {
  if (const auto data = TRY(read_data_url(url))) {
    media.source = MediaPart::Source::kBase64;
    media.media_type = data->media_type;
    media.data = data->data;
    return {};
  }
  media.source = MediaPart::Source::kUrl;
  media.data = TRY(url.as_string());
  return {};
}

Result<MediaPart> read_image(const JsonNode& part) {
  MediaPart media{.kind = MediaPart::Kind::kImage};
  const JsonNode image = TRY(part.at("image_url"));
  if (image.is_string()) {
    TRY_VOID(read_source(image, media));
    return media;
  }
  const JsonNode url = TRY(image.at("url"));
  TRY_VOID(read_source(url, media));
  media.detail = TRY(image.string_or("detail", ""));
  return media;
}

Result<MediaPart> read_file(const JsonNode& part) {
  MediaPart media{.kind = MediaPart::Kind::kDocument};
  const JsonNode file = TRY(part.at("file"));
  TRY_VOID(file.expect_object());
  media.name = TRY(file.string_or("filename", ""));
  if (const auto data = file.find("file_data")) {
    TRY_VOID(read_source(*data, media));
    // What is no data: URL is the base64 text alone, unless a server takes URLs here.
    if (media.source == MediaPart::Source::kUrl && !media.data.starts_with("http"))
      media.source = MediaPart::Source::kBase64;
    return media;
  }
  const std::string_view id = TRY(file.string_or("file_id", ""));
  if (id.empty()) return file.error("needs \"file_data\" or \"file_id\"");
  media.source = MediaPart::Source::kFile;
  media.data = id;
  return media;
}

Result<Part> read_part(const JsonNode& node) {
  const std::string_view type = TRY(node.string_at("type"));
  Part part{.content = TextPart{}};
  part.cache = TRY(read_cache_hint(node));
  if (type == "text") {
    part.content = TextPart{.text = std::string(TRY(node.string_at("text")))};
  } else if (type == "refusal") {
    part.content = RefusalPart{.text = std::string(TRY(node.string_at("refusal")))};
  } else if (type == "image_url") {
    part.content = TRY(read_image(node));
  } else if (type == "file") {
    part.content = TRY(read_file(node));
  } else if (std::ranges::find(kOpaqueTypes, type) != kOpaqueTypes.end()) {
    part.cache.reset();  // it stands in the JSON
    part.content =
        OpaquePart{.protocol = Protocol::kChat, .type = std::string(type), .json = node.raw()};
  } else {
    return TRY(node.at("type"))
        .error(fmt::format("\"{}\" is not a kind of content", type.substr(0, 64)));
  }
  return part;
}

bool is_empty_text(const Part& part) {
  if (const auto* refused = std::get_if<RefusalPart>(&part.content)) return refused->text.empty();
  const auto* const text = std::get_if<TextPart>(&part.content);
  return text != nullptr && text->text.empty();
}

}  // namespace

Result<std::optional<CacheHint>> read_cache_hint(const JsonNode& node) {
  if (const auto control = node.find("cache_control"))
    return std::optional(CacheHint{.one_hour = TRY(control->string_or("ttl", "5m")) == "1h"});
  if (node.find("prompt_cache_breakpoint")) return std::optional(CacheHint{});
  return std::optional<CacheHint>();
}

Result<void> read_content(const JsonNode& content, std::vector<Part>& parts) {
  if (content.is_string()) {
    const std::string_view text = TRY(content.as_string());
    if (!text.empty()) parts.push_back({.content = TextPart{.text = std::string(text)}});
    return {};
  }
  if (!content.is_array()) return content.error("must be a string or a list");
  return content.for_each([&](const JsonNode& node) -> Result<void> {
    Part part = TRY(read_part(node));
    if (!is_empty_text(part)) parts.push_back(std::move(part));
    return {};
  });
}

}  // namespace pons::models::chat
