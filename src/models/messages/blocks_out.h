#pragma once

#include <string_view>
#include <vector>

#include "json_writer.h"
#include "pons/models/message.h"

namespace pons::models::messages {

// Fields that came with a block and are not known: only a block of this protocol may keep them.
enum class Extras : std::uint8_t { kKept, kLeft };

// Writes nothing for thinking of another author, and for opaque parts of another protocol.
void write_block(JsonWriter& json, const Part& part, Extras extras);

// A text alone is written as a string, all else as a list of blocks.
void write_content(JsonWriter& json, const std::vector<Part>& parts, Extras extras);
bool is_plain_text(const Part& part, Extras extras);

void write_cache(JsonWriter& json, const std::optional<CacheHint>& cache,
                 const std::vector<ExtraField>& extras);
void write_extras(JsonWriter& json, const std::vector<ExtraField>& extras);

}  // namespace pons::models::messages
