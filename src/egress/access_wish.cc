#include "access_wish.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "pons/base/text.h"

namespace pons::egress {

namespace {

constexpr std::size_t kMethodsMax = 16;
constexpr std::size_t kMethodBytesMax = 32;

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "read access request", std::move(message));
}

struct CharacterRange {
  char32_t first;
  char32_t last;
};

// Characters that are not seen, or that change how what stands beside them is seen.
constexpr std::array kUnseen = {
    CharacterRange{0x00, 0x1F},       CharacterRange{0x7F, 0x9F},
    CharacterRange{0xAD, 0xAD},       CharacterRange{0x034F, 0x034F},
    CharacterRange{0x061C, 0x061C},   CharacterRange{0x115F, 0x1160},
    CharacterRange{0x17B4, 0x17B5},   CharacterRange{0x180B, 0x180F},
    CharacterRange{0x200B, 0x200F},   CharacterRange{0x2028, 0x202E},
    CharacterRange{0x2060, 0x206F},   CharacterRange{0x3164, 0x3164},
    CharacterRange{0xE000, 0xF8FF},   CharacterRange{0xFE00, 0xFE0F},
    CharacterRange{0xFEFF, 0xFEFF},   CharacterRange{0xFFA0, 0xFFA0},
    CharacterRange{0xFFF0, 0xFFFB},   CharacterRange{0xFFFE, 0xFFFF},
    CharacterRange{0x1D173, 0x1D17A}, CharacterRange{0xE0000, 0x10FFFF}};

// The code point at `at` of valid UTF-8; moves behind it.
char32_t take_character(std::string_view text, std::size_t& at) {
  const auto byte = [&] { return static_cast<unsigned char>(text[at++]); };
  const unsigned char lead = byte();
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t character = lead & (0x3FU >> more);
  for (int i = 0; i < more && at < text.size(); ++i) character = character << 6 | (byte() & 0x3FU);
  return character;
}

bool is_shown_as_it_is(std::string_view text) {
  if (!is_valid_utf8(text)) return false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t character = take_character(text, at);
    if (std::ranges::any_of(kUnseen, [&](const CharacterRange& range) {
          return character >= range.first && character <= range.last;
        }))
      return false;
  }
  return true;
}

Result<Destination> read_host(const Json& value) {
  Destination host = TRY(parse_destination(value.get_ref<const std::string&>()));
  const auto* name = std::get_if<names::HostName>(&host);
  if (name != nullptr && (name->text() == "pons.internal" || name->is_below("pons.internal")))
    return wrong("names of Pons itself are not asked for");
  return host;
}

Result<std::vector<std::string>> read_methods(const Json& value) {
  auto methods = value.get<std::vector<std::string>>();
  if (methods.empty() || methods.size() > kMethodsMax)
    return wrong("methods are a list of 1 to 16");
  for (const std::string& method : methods)
    if (method.empty() || method.size() > kMethodBytesMax ||
        !std::ranges::all_of(method, [](char c) { return c >= 'A' && c <= 'Z'; }))
      return wrong("a method is written in capital letters, such as GET");
  std::ranges::sort(methods);
  methods.erase(std::ranges::unique(methods).begin(), methods.end());
  return methods;
}

Result<std::string> read_reason(const Json& value) {
  const auto& reason = value.get_ref<const std::string&>();
  if (trim(reason).empty() || reason.size() > kReasonBytesMax)
    return wrong("say why: a reason has 1 to 500 bytes");
  if (!is_shown_as_it_is(reason))
    return wrong("a reason is one line of text, without control or invisible characters");
  return std::string(trim(reason));
}

Result<AccessWish> read_wish(const Json& json) {
  std::optional<Destination> host;
  AccessWish wish{.host = names::IpAddress(), .methods = {}, .reason = {}};
  for (const auto& [key, value] : json.items()) {
    if (key == "host")
      host = TRY(read_host(value));
    else if (key == "port" && value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
             value.get<std::uint64_t>() <= 65'535)
      wish.port = value.get<std::uint16_t>();
    else if (key == "methods")
      wish.methods = TRY(read_methods(value));
    else if (key == "reason")
      wish.reason = TRY(read_reason(value));
    else
      return wrong("there are host, reason, port (1 to 65535) and methods, and nothing else");
  }
  if (!host) return wrong("say which host");
  if (wish.reason.empty()) return wrong("say why: a reason has 1 to 500 bytes");
  wish.host = *std::move(host);
  return wish;
}

}  // namespace

bool AccessWish::asks_same_as(const AccessWish& other) const {
  return host == other.host && port == other.port && methods == other.methods;
}

Result<AccessWish> parse_access_wish(std::string_view text) {
  return read_access_wish(TRY(parse_json(text, {.depth = 4, .bytes = kWishBytesMax})));
}

Result<AccessWish> read_access_wish(const Json& json) {
  if (!json.is_object()) return wrong(R"(send {"host": "…", "reason": "…"})");
  try {
    return read_wish(json);
  } catch (const Json::exception&) {
    return wrong("a field has the wrong type");
  }
}

Json to_json(const AccessWish& wish) {
  Json json = {{"host", to_text(wish.host)}, {"port", wish.port}};
  if (!wish.methods.empty()) json["methods"] = wish.methods;
  json["reason"] = wish.reason;
  return json;
}

}  // namespace pons::egress
