#pragma once

#include <memory>
#include <string>

#include "pons/sandbox/provider.h"

namespace pons::e2b {

// The bytes of a gzip stream, unpacked as they are pulled. What is damaged or cut short is an
// error.
std::unique_ptr<sandbox::ByteSource> gunzip(std::unique_ptr<sandbox::ByteSource> packed);

}  // namespace pons::e2b
