#include "file_shape.h"

#include <nlohmann/json.hpp>

#include "pons/managed/query.h"

namespace pons::managed {

Json show_file(const files::File& file) {
  Json scope = nullptr;
  if (!file.scope.empty()) scope = {{"type", "session"}, {"id", file.scope}};
  return {{"id", file.id},
          {"type", "file"},
          {"filename", file.name},
          {"mime_type", file.mime_type},
          {"size_bytes", file.bytes},
          {"created_at", write_time(file.created_ms)},
          {"downloadable", true},
          {"expires_at", file.expires_ms ? Json(write_time(*file.expires_ms)) : Json(nullptr)},
          {"scope", std::move(scope)}};
}

}  // namespace pons::managed
