#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/memory/agent_memory.h"
#include "pons/memory/path.h"
#include "pons/memory/tools.h"

using namespace pons;
using namespace pons::memory;

// What a model passes to its memory is read or refused with a sentence; whatever a note holds, only
// its last line ends it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  if (const auto read = read_write(input))
    CHECK(check_path(read->path) && read->content.size() <= kContentBytesMax &&
          read->content.find('\0') == std::string::npos);
  else
    CHECK(!read.error().message.empty());
  if (const auto read = read_search(input))
    CHECK(!read->query.empty() && read->limit >= 1 && read->limit <= kHitsMax);
  else
    CHECK(!read.error().message.empty());
  if (const auto read = read_read(input)) CHECK(check_path(read->path));
  if (const auto read = read_list(input)) CHECK(check_prefix(read->path_prefix));
  CHECK(read_read(input).has_value() == read_delete(input).has_value());

  const Memory note{.path = "/" + input, .sha256 = "0", .content = input};
  const std::string wrapped = wrap_note(input, note);
  const std::string last = wrapped.substr(wrapped.rfind("</"));
  CHECK(wrapped.find(last) == wrapped.size() - last.size());
  return 0;
}
