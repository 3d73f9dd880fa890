// The first byte picks the type; the rest is JSON. Holds: what is accepted is written and read
// again to the same text, and what is refused says why.

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/sandbox/wire.h"

namespace {

using namespace pons::sandbox;

template <class T>
void check(const pons::Json& json) {
  const auto value = from_json<T>(json);
  if (!value) {
    CHECK(value.error().code == pons::ErrorCode::kInvalid);
    CHECK(!value.error().message.empty());
    return;
  }
  const std::string text = pons::dump_json(to_json(*value));
  const auto parsed = pons::parse_json(text);
  CHECK(parsed.has_value());
  const auto again = from_json<T>(*parsed);
  CHECK(again.has_value());
  CHECK(pons::dump_json(to_json(*again)) == text);
}

constexpr void (*kChecks[])(const pons::Json&) = {
    check<Limits>,      check<CreateRequest>, check<JobSpec>,      check<JobEvent>,
    check<SandboxInfo>, check<Metrics>,       check<FileInfo>,     check<TemplateInfo>,
    check<FileChange>,  check<JobInfo>,       check<TerminalSize>, check<RunRequest>,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto json = pons::parse_json(text);
  if (json) kChecks[data[0] % std::size(kChecks)](*json);
  return 0;
}
