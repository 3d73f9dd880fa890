#pragma once

#include <string>

namespace pons::cli {

// A backup is two files: one that the operator names, of the brain's store, and beside it this one,
// of the gateway's.
inline std::string models_file_of(const std::string& file) {
  return file + ".models";
}

}  // namespace pons::cli
