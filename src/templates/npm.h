#pragma once

#include <map>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/templates/packages.h"

namespace pons::templates {

// The SHA-512 that an "sha512-…" stands for, as bytes.
Result<std::string> read_integrity(const std::string& integrity);
// The SHA-512 of the whole file; the descriptor is at its start afterwards.
Result<std::string> sha512_of_file(int fd, int interrupt_fd);

// Names and versions go to a program as words, places become paths.
Result<void> check_packages(const PackageOptions& options);

// The archives by their digest, as files in `directory`, which is this call's own. Every package is
// among them, and each is what was asked for.
Result<std::map<std::string, std::string>> fetch_archives(const PackageOptions& options,
                                                          const std::string& directory);

}  // namespace pons::templates
