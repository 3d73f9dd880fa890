// Holds: only a line with the right hash of its own bytes is accepted as unchanged; and text of any
// bytes becomes printable ASCII that cannot end the JSON string it stands in.

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "lines.h"
#include "pons/base/check.h"
#include "pons/base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pons::audit;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto link = parse_link(text);
  CHECK(!link || link->hash.size() == kFirstPrevious.size());

  const std::string plain = plain_text(text, 512);
  CHECK(plain.size() <= 512 + 5);
  const std::string line =
      make_line(7, 8, "decision", ",\"path\":\"" + plain + "\"", kFirstPrevious);
  const auto json = pons::parse_json(line);
  CHECK(json.has_value());
  CHECK((*json)["path"].get<std::string>() == plain);
  const auto own = parse_link(line);
  CHECK(own && own->hash_is_right && own->seq == 7 && own->previous == kFirstPrevious);
  return 0;
}
