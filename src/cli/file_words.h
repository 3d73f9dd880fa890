#pragma once

namespace pons::cli {

// Types of options that name files of this machine, which may have any bytes. All other words must
// be UTF-8 text.
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kDirectory = "DIR";

}  // namespace pons::cli
