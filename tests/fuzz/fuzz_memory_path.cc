#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cursor.h"
#include "nfc.h"
#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/memory/path.h"

using namespace pons;
using namespace pons::memory;

// A path is refused with a sentence, or is what the rules say: its folders are paths, it overlaps
// with them and with what is below it, and nothing stands between it and what may follow it.
// A cursor is what was written, or refused.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  if (const auto checked = check_path(input)) {
    CHECK(input.front() == '/' && input.size() <= kPathBytesMax && is_valid_utf8(input));
    CHECK(is_nfc(decode_utf8(input)));
    const auto folders = folders_and_itself(input);
    CHECK(!folders.empty() && folders.size() <= kSegmentsMax && folders.back() == input);
    for (const std::string& folder : folders) {
      CHECK(check_path(folder) && overlap(folder, input) && overlap(input, folder));
      const PathInterval below = below_folder(folder);
      CHECK((input >= below.first && input < below.end) == (folder != input));
    }
    CHECK(after_path(input) > input && after_path(input) < below_folder(input).first);
    CHECK(input.size() == kPathBytesMax || check_prefix(input + "/"));
  } else {
    CHECK(!checked.error().message.empty());
  }
  (void)check_prefix(input);
  const std::string slug = mount_slug(input);
  CHECK(slug.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos);

  if (const auto position = read_cursor("list", input)) CHECK(is_valid_utf8(*position));
  const auto back = read_cursor("list", write_cursor("list", input));
  const bool is_text = is_valid_utf8(input) && input.find('\0') == std::string::npos;
  if (is_text && size < 2000) CHECK(back && *back == input);
  CHECK(!read_cursor("other", write_cursor("list", input)));
  return 0;
}
