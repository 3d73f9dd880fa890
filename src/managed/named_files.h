#pragma once

#include <string>

#include "pons/base/json.h"
#include "pons/managed/reply.h"
#include "routes.h"

namespace pons::managed {

// Files that events name in place of bytes, read when they are sent: what becomes of the file later
// changes nothing of what was said. Sources of images and documents become bytes that remember the
// file, rubrics become text. What is no such thing is left to whoever reads the events.
Task<Reply<Json>> bring_files(Objects& objects, std::string project, Json events);

// Blocks of a log as the client wrote them: what came from a file is its name.
Json with_names_of_files(Json blocks);

}  // namespace pons::managed
