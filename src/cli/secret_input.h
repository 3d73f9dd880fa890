#pragma once

#include <string_view>

#include "pons/base/result.h"
#include "pons/base/secret.h"

namespace pons::cli {

// A secret from standard input: asked for without echo at a terminal, else everything up to the end
// of input without its last line end. Never from the command line, which every process can read.
Result<Secret> read_secret(std::string_view prompt);

}  // namespace pons::cli
