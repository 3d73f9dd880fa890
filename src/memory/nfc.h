#pragma once

#include <string>
#include <string_view>

namespace pons::memory {

// The code points of valid UTF-8.
std::u32string decode_utf8(std::string_view text);

// True when the text is in Unicode's normal form C, so that what looks the same is the same bytes.
bool is_nfc(std::u32string_view text);

// Controls, invisible format characters, line and paragraph separators: what would let two paths
// look alike, or one look like two lines.
bool is_unprintable(char32_t code);

}  // namespace pons::memory
