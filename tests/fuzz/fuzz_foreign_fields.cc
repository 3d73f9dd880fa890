// Bodies of any type in any cut: whether one holds a credential's name does not depend on the cut,
// and what is once found stays found.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "foreign_fields.h"

using pons::egress::ForeignFields;

namespace {

bool holds_name(std::string_view type, std::string_view body, std::size_t step) {
  pons::http::RequestHead head;
  if (!type.empty()) head.fields.push_back({"Content-Type", type});
  ForeignFields fields(head, {"token", "private_token", "key"});
  fields.expect("key");
  bool found = false;
  for (std::size_t at = 0; at < body.size(); at += step) {
    const bool now = fields.feed(body.substr(at, step));
    if (found && !now) std::abort();
    found = now;
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const std::string_view type :
       {"", "application/json", "application/x-www-form-urlencoded", "multipart/form-data"}) {
    const bool whole = holds_name(type, body, size + 1);
    for (const std::size_t step : {1, 3, 64})
      if (holds_name(type, body, step) != whole) std::abort();
  }
  return 0;
}
