// What a program in a sandbox sends to ask for access. Holds: what is accepted is within its
// limits, is written and read again to the same wish, and holds no control character.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "access_wish.h"
#include "pons/base/check.h"
#include "pons/base/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pons::egress;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto wish = parse_access_wish(text);
  if (!wish) return 0;
  CHECK(size <= kWishBytesMax);
  CHECK(!wish->reason.empty() && wish->reason.size() <= kReasonBytesMax);
  CHECK(pons::is_valid_utf8(wish->reason));
  CHECK(
      std::ranges::none_of(wish->reason, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; }));
  const auto again = read_access_wish(to_json(*wish));
  CHECK(again && again->asks_same_as(*wish) && again->reason == wish->reason);
  return 0;
}
