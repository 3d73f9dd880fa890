#pragma once

#include <vector>

#include "pons/http/router.h"

namespace pons::files {
class FileStore;
}

namespace pons::managed {

// /v1/files and all below it. `files` outlives the routes.
std::vector<http::Route> file_routes(files::FileStore& files);

}  // namespace pons::managed
