#include "pons/session/media.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/base/base64.h"

namespace pons::session {

namespace {

struct Medium {
  std::string_view kind;
  std::string_view type;
  std::string_view beginning;
  std::string_view behind = {};  // at the eighth byte
};

// What the providers agree on.
constexpr std::array kMedia = {
    Medium{"image", "image/png", "\x89PNG"},       Medium{"image", "image/jpeg", "\xFF\xD8\xFF"},
    Medium{"image", "image/gif", "GIF8"},          Medium{"image", "image/webp", "RIFF", "WEBP"},
    Medium{"document", "application/pdf", "%PDF"},
};
constexpr std::size_t kBehind = 8;

Error refuse(std::string message) {
  return make_error(ErrorCode::kInvalid, "read media", std::move(message));
}

}  // namespace

Result<void> check_media(std::string_view kind, std::string_view media_type,
                         std::string_view data) {
  if (kind == "document" && media_type == "text/plain") return {};
  const auto medium = std::ranges::find_if(
      kMedia, [&](const Medium& known) { return known.kind == kind && known.type == media_type; });
  if (medium == kMedia.end())
    return refuse(kind == "image"
                      ? "\"media_type\" of an image must be image/png, image/jpeg, image/gif or "
                        "image/webp"
                      : "\"media_type\" of a document must be application/pdf or text/plain");
  const auto bytes = base64_decode(data);
  if (!bytes) return refuse("\"data\" is no base64");
  const std::string_view all = *bytes;
  if (!all.starts_with(medium->beginning) ||
      all.substr(std::min(kBehind, all.size())).substr(0, medium->behind.size()) != medium->behind)
    return refuse(fmt::format("\"data\" is no {}", media_type));
  return {};
}

}  // namespace pons::session
