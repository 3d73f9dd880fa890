#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace pons {

// Fills with the kernel's random numbers.
void random_bytes(void* out, std::size_t size) noexcept;

// `length` letters and digits (5 bits each) from the kernel's generator.
std::string random_text(std::size_t length);

// True for 1 to 128 characters of [A-Za-z0-9_-]: safe in paths, headers, URLs and shell words.
bool is_id_text(std::string_view text);

// An identifier that cannot be confused with one of another kind. Tag has `static constexpr
// std::string_view kPrefix`.
template <class Tag>
class Id {
 public:
  static Id generate() { return Id(std::string(Tag::kPrefix) + "_" + random_text(26)); }
  static std::optional<Id> parse(std::string_view text) {
    if (!is_id_text(text)) return std::nullopt;
    return Id(std::string(text));
  }
  const std::string& text() const { return text_; }
  auto operator<=>(const Id&) const = default;

 private:
  explicit Id(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace pons

template <class Tag>
struct std::hash<pons::Id<Tag>> {
  std::size_t operator()(const pons::Id<Tag>& id) const noexcept {
    return std::hash<std::string>{}(id.text());
  }
};
