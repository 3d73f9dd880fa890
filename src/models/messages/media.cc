#include <algorithm>

#include <fmt/format.h>

#include "messages/turns.h"
#include "pons/base/base64.h"
#include "pons/base/text.h"

namespace pons::models::messages {

namespace {

// How the base64 text of these files begins.
std::string_view media_type_of(std::string_view base64) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kBeginnings = {
      {{"iVBORw0KGgo", "image/png"},
       {"/9j/", "image/jpeg"},
       {"R0lGOD", "image/gif"},
       {"UklGR", "image/webp"},
       {"JVBERi", "application/pdf"}}};
  for (const auto& [beginning, type] : kBeginnings)
    if (base64.starts_with(beginning)) return type;
  return "";
}

Result<void> fit_image(MediaPart& image) {
  if (image.source != MediaPart::Source::kBase64) return {};
  if (image.media_type == "image/jpg") image.media_type = "image/jpeg";
  if (image.media_type.empty()) image.media_type = media_type_of(image.data);
  constexpr std::array<std::string_view, 4> kKnown = {"image/png", "image/jpeg", "image/gif",
                                                      "image/webp"};
  if (std::ranges::find(kKnown, image.media_type) != kKnown.end()) return {};
  return unwritable(
      fmt::format("an image of type \"{}\": this model reads PNG, JPEG, GIF and WebP images only",
                  image.media_type));
}

// PDF files go as base64, all that is text as text.
Result<void> fit_document(MediaPart& document) {
  if (document.source == MediaPart::Source::kText) {
    document.media_type = "text/plain";
    return {};
  }
  if (document.source != MediaPart::Source::kBase64) return {};
  if (document.media_type.empty()) document.media_type = media_type_of(document.data);
  if (document.media_type == "application/pdf") return {};
  const bool is_text =
      document.media_type.starts_with("text/") || document.media_type == "application/json";
  auto text = is_text ? base64_decode(document.data) : std::nullopt;
  if (!text || !is_valid_utf8(*text))
    return unwritable(fmt::format("a file of type \"{}\": this model reads PDF and text files only",
                                  document.media_type));
  document.source = MediaPart::Source::kText;
  document.media_type = "text/plain";
  document.data = std::move(*text);
  return {};
}

bool is_fit(const MediaPart& media) {
  if (media.source == MediaPart::Source::kUrl) return true;
  if (media.kind == MediaPart::Kind::kDocument)
    return media.source == MediaPart::Source::kBase64 && media.media_type == "application/pdf";
  return media.source == MediaPart::Source::kBase64 &&
         (media.media_type == "image/png" || media.media_type == "image/jpeg");
}

}  // namespace

Result<const Part*> fit_media(const Part& part, std::deque<Part>& made, Omitted& omitted) {
  const auto& media = std::get<MediaPart>(part.content);
  if (!media.detail.empty() && media.detail != "auto") omit(omitted, "detail");
  if (is_fit(media)) return &part;
  if (media.source == MediaPart::Source::kFile)
    return unwritable(fmt::format(
        "file \"{}\": a file id is known only where the file was uploaded; send the file's data",
        media.data.substr(0, 64)));
  Part& fitted = made.emplace_back(part);
  auto& copy = std::get<MediaPart>(fitted.content);
  if (copy.kind == MediaPart::Kind::kImage)
    TRY_VOID(fit_image(copy));
  else
    TRY_VOID(fit_document(copy));
  return &fitted;
}

Error unwritable(std::string message) {
  return make_error(ErrorCode::kInvalid, "write request", std::move(message));
}

void omit(Omitted& omitted, std::string_view name) {
  if (std::ranges::find(omitted, name) == omitted.end()) omitted.emplace_back(name);
}

}  // namespace pons::models::messages
