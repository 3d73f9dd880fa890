// The first byte cuts the input into a name and a type. Holds: a name has no folder, no control
// characters and at most 255 bytes of UTF-8, and stays what it is; a type can stand in a field.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/files/file_name.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t cut = std::min<std::size_t>(data[0], text.size());
  const std::string type = pons::files::mime_type_of(text.substr(cut));
  CHECK(std::ranges::count(type, '/') == 1);
  CHECK(std::ranges::all_of(type, [](char c) { return c > ' ' && c < 0x7F; }));
  CHECK(pons::files::mime_type_of(type) == type);

  const std::string name = pons::files::file_name(text.substr(0, cut), type);
  CHECK(!name.empty() && name.size() <= 255 && name != "." && name != "..");
  CHECK(name.find('/') == std::string::npos && name.find('\\') == std::string::npos);
  CHECK(pons::is_valid_utf8(name));
  CHECK(std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
  CHECK(pons::files::file_name(name, type) == name);
  return 0;
}
