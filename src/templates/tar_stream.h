#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "layer_writer.h"
#include "pons/base/result.h"
#include "pons/templates/tree.h"

namespace pons::templates {

// Reads the archive to its end and hands its entries to the writer. Returns the SHA-256 of what
// was inside the compression. Runs in the jail, and nowhere else on input from outside.
Result<std::string> unpack_tar(int input_fd, LayerWriter& writer, const TreeLimits& limits,
                               const std::function<void(std::uint64_t)>& progress);

}  // namespace pons::templates
