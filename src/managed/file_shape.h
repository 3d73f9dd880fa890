#pragma once

#include "pons/base/json.h"
#include "pons/files/file_store.h"

namespace pons::managed {

Json show_file(const files::File& file);

}  // namespace pons::managed
