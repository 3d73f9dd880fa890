#include "pons/vault/format.h"

#include <algorithm>

#include <fmt/format.h>
#include <sodium.h>

#include "pons/base/text.h"
#include "services.h"

namespace pons::vault {

namespace {

constexpr std::size_t kFormatBytesMax = 256;
constexpr std::string_view kHole = "{}";
constexpr std::string_view kBasic = "Basic ";
constexpr std::string_view kAnyUser = "x-access-token";

Error wrong(std::string_view why) {
  return make_error(ErrorCode::kInvalid, "read format", std::string(why));
}

// Canonical only: two texts for the same bytes would be two ways past a comparison.
std::optional<std::string> decode_base64(std::string_view text) {
  std::string bytes(text.size(), '\0');
  std::size_t size = 0;
  const int failed =
      sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, nullptr, sodium_base64_VARIANT_ORIGINAL);
  if (failed != 0) return std::nullopt;
  bytes.resize(size);
  if (base64_encode(bytes) != text) return std::nullopt;
  return bytes;
}

// What hosts that take a token as the user want for a password.
bool is_no_password(std::string_view text) {
  return text.empty() || text == "x-oauth-basic";
}

// Not another credential, which a host might take in place of the password.
bool is_user_name(std::string_view text, std::string_view stub) {
  constexpr std::size_t kTokenBytesMin = 20;
  if (text.find(stub) != std::string_view::npos) return false;
  return text.size() < kTokenBytesMin ||
         std::ranges::none_of(
             services().prefixes,
             [&](const std::string& prefix) { return text.starts_with(prefix); });
}

bool has_control_character(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

}  // namespace

Result<Format> Format::parse(std::string_view text) {
  if (text.size() > kFormatBytesMax) return wrong("a format has at most 256 characters");
  if (!std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7F; }))
    return wrong("a format is printable ASCII");
  const std::size_t hole = text.find(kHole);
  if (hole == std::string_view::npos || text.find(kHole, hole + 1) != std::string_view::npos)
    return wrong("a format has exactly one {} where the value goes, such as \"Bearer {}\"");
  if (trim(text) != text) return wrong("a format neither begins nor ends with a space");

  Format format;
  format.text_ = text;
  std::string_view before = text.substr(0, hole);
  if (const std::size_t space = before.find(' '); space != std::string_view::npos) {
    format.scheme_ = before.substr(0, space + 1);
    before.remove_prefix(space + 1);
  }
  format.before_ = before;
  format.after_ = text.substr(hole + kHole.size());
  format.basic_ = equal_ignoring_case(format.scheme_, kBasic);
  if (!format.basic_) return format;

  // The colon belongs to the form, not to USER or PASSWORD.
  const bool is_password = format.before_.ends_with(':') && format.after_.empty();
  const bool is_user = format.before_.empty() && format.after_.starts_with(':');
  if (!is_password && !is_user)
    return wrong("Basic takes \"Basic USER:{}\" or \"Basic {}:PASSWORD\"; * stands for any");
  if (is_password && format.before_.find(':') != format.before_.size() - 1)
    return wrong("the user of Basic has no colon");
  return format;
}

std::string Format::render(std::string_view value) const {
  if (!basic_) return fmt::format("{}{}{}{}", scheme_, before_, value, after_);
  std::string clear =
      fmt::format("{}{}{}", before_ == "*:" ? fmt::format("{}:", kAnyUser) : before_, value,
                  after_ == ":*" ? ":" : after_);
  std::string text = fmt::format("{}{}", kBasic, base64_encode(clear));
  sodium_memzero(clear.data(), clear.size());
  return text;
}

std::optional<Swapped> Format::swap(std::string_view sent, std::string_view stub,
                                    std::string_view value) const {
  if (stub.empty() || sent.size() < scheme_.size() ||
      !equal_ignoring_case(sent.substr(0, scheme_.size()), scheme_))
    return std::nullopt;
  sent.remove_prefix(scheme_.size());
  if (!basic_) {
    if (sent != fmt::format("{}{}{}", before_, stub, after_)) return std::nullopt;
    return Swapped{.sent = render(value), .rest = {}};
  }

  const auto decoded = decode_base64(sent);
  if (!decoded || has_control_character(*decoded)) return std::nullopt;
  const std::size_t colon = decoded->find(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string_view user = std::string_view(*decoded).substr(0, colon);
  const std::string_view password = std::string_view(*decoded).substr(colon + 1);
  const bool value_is_password = after_.empty();
  const std::string_view other = value_is_password ? user : password;
  const std::string_view declared = value_is_password
                                        ? std::string_view(before_).substr(0, before_.size() - 1)
                                        : std::string_view(after_).substr(1);
  if ((value_is_password ? password : user) != stub) return std::nullopt;
  const bool may_be_other = value_is_password ? is_user_name(other, stub) : is_no_password(other);
  if (declared == "*" ? !may_be_other : other != declared) return std::nullopt;
  std::string clear =
      value_is_password ? fmt::format("{}:{}", other, value) : fmt::format("{}:{}", value, other);
  Swapped swapped{.sent = fmt::format("{}{}", kBasic, base64_encode(clear)),
                  .rest = std::string(other)};
  sodium_memzero(clear.data(), clear.size());
  return swapped;
}

}  // namespace pons::vault
