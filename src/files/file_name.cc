#include "pons/files/file_name.h"

#include <algorithm>
#include <array>
#include <utility>

#include "pons/base/text.h"

namespace pons::files {

namespace {

constexpr std::size_t kNameBytesMax = 255;
constexpr std::size_t kTypeBytesMax = 127;
constexpr std::string_view kAnyBytes = "application/octet-stream";

constexpr auto kExtensions = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"application/json", "json"},
    {"application/pdf", "pdf"},
    {"application/zip", "zip"},
    {"image/gif", "gif"},
    {"image/jpeg", "jpg"},
    {"image/png", "png"},
    {"image/webp", "webp"},
    {"text/csv", "csv"},
    {"text/html", "html"},
    {"text/markdown", "md"},
    {"text/plain", "txt"},
});

std::string_view extension_of(std::string_view mime_type) {
  const auto* const known =
      std::ranges::find(kExtensions, mime_type, [](const auto& each) { return each.first; });
  return known == kExtensions.end() ? "bin" : known->second;
}

bool is_type_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$&-^_.+").find(c) != std::string_view::npos;
}

bool is_type_word(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, is_type_char);
}

// Not in the middle of a character.
void shorten(std::string& name) {
  if (name.size() <= kNameBytesMax) return;
  std::size_t end = kNameBytesMax;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  name.resize(end);
}

}  // namespace

std::string file_name(std::string_view said, std::string_view mime_type) {
  said.remove_prefix(std::min(said.find_last_of("/\\") + 1, said.size()));
  std::string name;
  if (is_valid_utf8(said))
    std::ranges::copy_if(said, std::back_inserter(name),
                         [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F; });
  name = std::string(trim(name));
  shorten(name);
  name = std::string(trim(name));
  if (name.empty() || name == "." || name == "..")
    return "unnamed." + std::string(extension_of(mime_type));
  return name;
}

std::string mime_type_of(std::string_view said) {
  std::string type(trim(said.substr(0, said.find(';'))));
  std::ranges::transform(type, type.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  const std::size_t slash = type.find('/');
  if (slash == std::string::npos || type.size() > kTypeBytesMax ||
      !is_type_word(std::string_view(type).substr(0, slash)) ||
      !is_type_word(std::string_view(type).substr(slash + 1)))
    return std::string(kAnyBytes);
  return type;
}

std::string guess_mime_type(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::string(kAnyBytes);
  for (const auto& [type, extension] : kExtensions)
    if (equal_ignoring_case(name.substr(dot + 1), extension)) return std::string(type);
  return std::string(kAnyBytes);
}

}  // namespace pons::files
