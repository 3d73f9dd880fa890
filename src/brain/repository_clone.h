#pragma once

#include <string>

#include "pons/managed/session_files.h"

namespace pons::brain {

// What clones it into a folder of its own, for /bin/sh: whatever was there is gone, and nothing is
// there when it fails. Who asks for a name and a password for github.com there gets the stub that
// stands in GITHUB_TOKEN or GH_TOKEN, then and later: egress puts the token in.
std::string clone_command(const managed::Repository& repository, const std::string& path);

}  // namespace pons::brain
