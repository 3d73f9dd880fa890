#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api_keys.h"
#include "pons/base/check.h"
#include "pons/base/id.h"
#include "pons/base/text.h"
#include "requests.h"

using namespace pons;
using namespace pons::brain;

// Bodies of requests to the brain: whatever comes, what is accepted can be stored.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto storable = [](std::string_view text) {
    return is_valid_utf8(text) && text.find('\0') == std::string_view::npos;
  };
  if (const auto name = parse_new_project(body)) CHECK(is_id_text(*name));
  if (const auto key = parse_new_key(body)) {
    CHECK(!key->name.empty() && storable(key->name) && storable(key->project));
    CHECK(!key->scopes.empty());
    for (const std::string& scope : key->scopes) CHECK(is_scope(scope));
  }
  if (const auto records = parse_sandbox_records(body, 1)) {
    CHECK(records->size() <= kRecordsMax);
    for (const SandboxRecord& record : *records) {
      CHECK(is_id_text(record.id) && is_id_text(record.project_id) && record.at_ms >= 0);
      CHECK(storable(record.metadata) && storable(record.reason));
      CHECK(storable(record.sandbox_template));
    }
  }
  return 0;
}
