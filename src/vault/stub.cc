#include "pons/vault/stub.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <sodium.h>
#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/vault/sealed.h"
#include "services.h"

namespace pons::vault {

namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kHexLower = "0123456789abcdef";
constexpr std::string_view kHexUpper = "0123456789ABCDEF";
constexpr std::string_view kPayloadBegin = "{\"stub\":\"";
constexpr std::string_view kPayloadEnd = "\"}";
constexpr std::size_t kPatternBytesMax = 8 * 1024;

std::string full_alphabet() {
  return fmt::format("{}{}{}", kDigits, kUpper, kLower);
}

bool contains(std::string_view set, char c) {
  return c != '\0' && set.find(c) != std::string_view::npos;
}

bool is_random_place(char c) {
  return contains(kDigits, c) || contains(kLower, c) || contains(kUpper, c);
}

// The kinds of characters the text uses, as a whole: which kind stands where would tell about a bit
// and a half of every character of the value.
std::string alphabet_of(std::string_view text) {
  const auto only = [&](std::string_view set) {
    return std::ranges::all_of(text,
                               [&](char c) { return !is_random_place(c) || contains(set, c); });
  };
  const auto some = [&](std::string_view set) {
    return std::ranges::any_of(text, [&](char c) { return contains(set, c); });
  };
  if (some(kDigits) && some(kLower) && only(kHexLower)) return std::string(kHexLower);
  if (some(kDigits) && some(kUpper) && only(kHexUpper)) return std::string(kHexUpper);
  std::string alphabet;
  for (const std::string_view set : {kDigits, kUpper, kLower})
    if (some(set)) alphabet += set;
  return alphabet;
}

StubShape plain_shape(std::string_view value, std::size_t kept, std::string alphabet) {
  StubShape shape{
      .style = StubStyle::kPlain, .pattern = std::string(value), .alphabet = std::move(alphabet)};
  for (std::size_t i = kept; i < value.size(); ++i)
    if (is_random_place(value[i])) shape.pattern[i] = '\0';
  return shape;
}

std::size_t known_prefix_size(std::string_view value) {
  for (const std::string& prefix : services().prefixes)
    if (value.starts_with(prefix)) return prefix.size();
  return 0;
}

// Characters of unpadded base64url to bytes; 4n+1 characters are no whole number of bytes.
std::size_t decoded_size(std::size_t characters) {
  return characters * 3 / 4;
}

std::string base64url(std::string_view bytes) {
  std::string text(
      sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  text.pop_back();  // the terminator
  return text;
}

bool is_base64url(std::string_view part) {
  return !part.empty() && part.size() % 4 != 1 && std::ranges::all_of(part, [](char c) {
    return is_random_place(c) || c == '-' || c == '_';
  });
}

bool is_json_object(std::string_view part) {
  std::string bytes(decoded_size(part.size()) + 1, '\0');
  std::size_t size = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), part.data(),
                        part.size(), nullptr, &size, nullptr,
                        sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0)
    return false;
  bytes.resize(size);
  const auto json = parse_json(bytes, {.depth = 8, .bytes = kPatternBytesMax});
  return json && json->is_object();
}

// A pattern when the value is a signed web token (RFC 7519), else empty.
std::string web_token_pattern(std::string_view value) {
  const auto parts = split(value, '.');
  if (parts.size() != 3 || !std::ranges::all_of(parts, is_base64url) || !is_json_object(parts[0]))
    return {};
  return fmt::format("{}.{}.{}", parts[0], std::string(parts[1].size(), '\0'),
                     std::string(parts[2].size(), '\0'));
}

bool is_web_token_pattern(std::string_view pattern) {
  const auto is_random = [](std::string_view part) {
    return !part.empty() && part.size() % 4 != 1 &&
           part.find_first_not_of('\0') == std::string_view::npos;
  };
  const auto parts = split(pattern, '.');
  return parts.size() == 3 && is_base64url(parts[0]) && is_random(parts[1]) && is_random(parts[2]);
}

bool is_alphabet(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, is_random_place) &&
         std::set(text.begin(), text.end()).size() == text.size();
}

// Bytes that only the key's holder can tell, as many as are asked for.
class Stream {
 public:
  explicit Stream(std::string_view seed) : seed_(seed) {}
  ~Stream() {
    wipe(seed_.data(), seed_.size());
    wipe(block_.data(), block_.size());
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  unsigned char next_byte() {
    if (at_ == block_.size()) refill();
    return static_cast<unsigned char>(block_[at_++]);
  }
  // Evenly: bytes past the last whole multiple of the alphabet are thrown away.
  char next_of(std::string_view alphabet) {
    const std::size_t limit = 256 / alphabet.size() * alphabet.size();
    for (;;)
      if (const std::size_t byte = next_byte(); byte < limit)
        return alphabet[byte % alphabet.size()];
  }
  std::string next_text(std::string_view alphabet, std::size_t size) {
    std::string text(size, '\0');
    for (char& c : text) c = next_of(alphabet);
    return text;
  }

 private:
  void refill() {
    block_.resize(64);
    crypto_generichash(reinterpret_cast<unsigned char*>(block_.data()), block_.size(),
                       reinterpret_cast<const unsigned char*>(&count_), sizeof count_,
                       reinterpret_cast<const unsigned char*>(seed_.data()), seed_.size());
    ++count_;
    at_ = 0;
  }

  std::string seed_;
  std::string block_;
  std::size_t at_ = 0;
  std::uint64_t count_ = 0;
};

// Sizes in front, so that no two owners give the same bytes.
std::string seed_of(const Secret& key, const StubOwner& owner, std::size_t attempt) {
  const std::string message =
      fmt::format("pons stub 1 {} {}:{}{}:{}{}:{}", attempt, owner.sandbox.size(), owner.sandbox,
                  owner.session.size(), owner.session, owner.credential.size(), owner.credential);
  std::string seed(kKeyBytes, '\0');
  crypto_generichash(reinterpret_cast<unsigned char*>(seed.data()), seed.size(),
                     reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                     reinterpret_cast<const unsigned char*>(key.reveal().data()), key.size());
  return seed;
}

std::string fill(const StubShape& shape, Stream& stream) {
  if (shape.style == StubStyle::kWebToken) {
    const auto parts = split(shape.pattern, '.');
    const std::size_t random =
        decoded_size(parts[1].size()) - kPayloadBegin.size() - kPayloadEnd.size();
    const std::string payload = fmt::format("{}{}{}", kPayloadBegin,
                                            stream.next_text(full_alphabet(), random), kPayloadEnd);
    std::string signature(decoded_size(parts[2].size()), '\0');
    for (char& c : signature) c = static_cast<char>(stream.next_byte());
    return fmt::format("{}.{}.{}", parts[0], base64url(payload), base64url(signature));
  }
  std::string stub = shape.pattern;
  for (char& c : stub)
    if (c == '\0') c = stream.next_of(shape.alphabet);
  return stub;
}

}  // namespace

double StubShape::random_bits() const {
  const double full = std::log2(static_cast<double>(full_alphabet().size()));
  if (style == StubStyle::kPlain)
    return static_cast<double>(std::ranges::count(pattern, '\0')) *
           std::log2(static_cast<double>(alphabet.size()));
  const auto parts = split(pattern, '.');
  if (parts.size() != 3) return 0;
  const std::size_t payload = decoded_size(parts[1].size());
  const std::size_t frame = kPayloadBegin.size() + kPayloadEnd.size();
  if (payload < frame) return 0;
  return static_cast<double>(payload - frame) * full +
         static_cast<double>(decoded_size(parts[2].size())) * 8;
}

Result<StubShape> shape_of(std::string_view value) {
  if (std::string pattern = web_token_pattern(value); !pattern.empty()) {
    StubShape shape{
        .style = StubStyle::kWebToken, .pattern = std::move(pattern), .alphabet = full_alphabet()};
    if (shape.random_bits() >= kStubBitsMin) return shape;
  }
  for (const std::size_t kept : {known_prefix_size(value), std::size_t{0}})
    for (const std::string& alphabet : {alphabet_of(value.substr(kept)), full_alphabet()}) {
      if (alphabet.empty()) continue;
      StubShape shape = plain_shape(value, kept, alphabet);
      if (shape.random_bits() >= kStubBitsMin) return shape;
    }
  return make_error(ErrorCode::kInvalid, "shape stub",
                    "the value has too few letters and digits for a stub nobody can guess");
}

Json to_json(const StubShape& shape) {
  return {{"style", shape.style == StubStyle::kWebToken ? "web_token" : "plain"},
          {"pattern", shape.pattern},
          {"alphabet", shape.alphabet}};
}

Result<StubShape> parse_shape(const Json& json) {
  const Error wrong = make_error(ErrorCode::kInvalid, "read stub shape", "it makes no sense");
  StubShape shape;
  try {
    const auto style = json.at("style").get<std::string>();
    if (style != "plain" && style != "web_token") return wrong;
    shape = {.style = style == "plain" ? StubStyle::kPlain : StubStyle::kWebToken,
             .pattern = json.at("pattern").get<std::string>(),
             .alphabet = json.at("alphabet").get<std::string>()};
  } catch (const Json::exception&) {
    return wrong;
  }
  const auto printable = [](char c) { return c == '\0' || (c >= 0x20 && c < 0x7F); };
  if (shape.pattern.size() > kPatternBytesMax || !std::ranges::all_of(shape.pattern, printable) ||
      !is_alphabet(shape.alphabet) || shape.random_bits() < kStubBitsMin)
    return wrong;
  if (shape.style == StubStyle::kWebToken && !is_web_token_pattern(shape.pattern)) return wrong;
  return shape;
}

std::string make_stub(const StubShape& shape, const Secret& key, const StubOwner& owner,
                      std::string_view value) {
  CHECK(key.size() == kKeyBytes && shape.random_bits() >= kStubBitsMin);
  for (std::size_t attempt = 0;; ++attempt) {
    Stream stream(seed_of(key, owner, attempt));
    std::string stub = fill(shape, stream);
    if (!equal_constant_time(stub, value)) return stub;
  }
}

std::string stand_in(std::string_view stub, std::string_view value) {
  std::string letters(stub);
  std::erase_if(letters, [](char c) { return !is_random_place(c); });
  CHECK(!letters.empty());
  std::string text(value);
  std::size_t next = 0;
  for (char& c : text)
    if (is_random_place(c)) c = letters[next++ % letters.size()];
  return text;
}

}  // namespace pons::vault
