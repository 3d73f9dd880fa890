#pragma once

#include <string>
#include <string_view>

namespace pons::files {

// A name without a folder, safe to show and to give to a file: the last component, without control
// characters, at most 255 bytes of UTF-8. "unnamed.EXT" when nothing is left of it.
std::string file_name(std::string_view said, std::string_view mime_type);

// "text/plain", without parameters; "application/octet-stream" when it is no type at all.
std::string mime_type_of(std::string_view said);

// By what its name ends with.
std::string guess_mime_type(std::string_view name);

}  // namespace pons::files
