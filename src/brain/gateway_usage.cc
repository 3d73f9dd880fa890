#include "gateway_usage.h"

#include "pons/base/json_place.h"

namespace pons::brain {

Result<session::Usage> read_gateway_usage(std::string_view body) {
  const Json json = TRY(parse_json(body));
  const JsonPlace place{.value = json, .pointer = {}};
  session::Usage usage;
  const auto read = [&](const char* key, std::int64_t& into) -> Result<void> {
    if (!json.is_object() || !place.has(key)) return place.refuse("it says too little");
    into = static_cast<std::int64_t>(
        TRY(place.at(key).number(0, static_cast<std::uint64_t>(session::kNumberMax))));
    return {};
  };
  TRY_VOID(read("input", usage.input));
  TRY_VOID(read("cache_read", usage.cache_read));
  TRY_VOID(read("cache_write", usage.cache_write));
  TRY_VOID(read("output", usage.output));
  TRY_VOID(read("cost_nano_usd", usage.cost_nano));
  return usage;
}

}  // namespace pons::brain
