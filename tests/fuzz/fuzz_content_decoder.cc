#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/check.h"
#include "pons/scan/content_decoder.h"

namespace pons::scan {
namespace {

struct Decoded {
  bool is_good = true;
  ErrorCode code = ErrorCode::kInternal;
  std::string text;
};

Decoded decode(std::string_view codings, std::string_view body, std::size_t piece_bytes) {
  Decoded decoded;
  auto decoder = ContentDecoder::create(codings);
  CHECK(decoder);
  Result<> outcome;
  const auto take = [&decoded](std::string_view piece) {
    decoded.text += piece;
    return Result<>();
  };
  std::size_t bytes_in = 0;
  for (; outcome && !body.empty(); body.remove_prefix(std::min(piece_bytes, body.size()))) {
    const auto part = body.substr(0, piece_bytes);
    const std::vector<char> memory(part.begin(), part.end());
    bytes_in += part.size();
    outcome = decoder->feed({memory.data(), memory.size()}, take);
    CHECK(decoded.text.size() <= std::max(kExpansionFreeBytes, bytes_in * kExpansionMax));
  }
  if (outcome) outcome = decoder->finish();
  decoded.is_good = outcome.has_value();
  if (!outcome) decoded.code = outcome.error().code;
  return decoded;
}

}  // namespace
}  // namespace pons::scan

// The first byte chooses the codings, the rest is the body.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pons::scan;
  if (size == 0) return 0;
  constexpr std::string_view kCodings[] = {"gzip",       "deflate",     "br",      "zstd",
                                           "gzip, zstd", "br, deflate", "identity"};
  const std::string_view codings = kCodings[data[0] % std::size(kCodings)];
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Decoded whole = decode(codings, body, size);
  const Decoded pieced = decode(codings, body, data[0] / std::size(kCodings) % 9 + 1);
  // Cut up, a bomb may be noticed earlier; everything else stays the same.
  if (whole.is_good && pieced.is_good) CHECK(whole.text == pieced.text);
  const bool is_bomb = pieced.code == pons::ErrorCode::kLimit;
  CHECK(whole.is_good == pieced.is_good || is_bomb);
  return 0;
}
