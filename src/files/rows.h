#pragma once

#include "pons/files/file_store.h"

namespace pons::files {

// What a file is at a time: "coming" until all of it is here, "ready", "gone" once nobody finds it
// any more, "expired" while it is still said why.
inline constexpr const char* kFileColumns =
    "id, project_id, name, mime_type, scope, place, bytes, parts, digest, created, expires, state";

Result<File> file_of(const store::Row& row);
Result<std::string> state_of(const store::Row& row);

// How what a project's files take together changes; refused when it would be too much.
store::Statement count_files(const std::string& project, std::int64_t files, std::int64_t bytes,
                             const FileLimits& limits);

}  // namespace pons::files
