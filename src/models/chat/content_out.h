#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/chat.h"

namespace pons::models::chat {

// What stands in the content of one message, written as this protocol came or as others mean it.
using Content = std::vector<const Part*>;

// Within the protocol: text alone as a string, else the parts with all that was said of them.
Result<void> write_own_content(JsonWriter& json, const Content& content);
void write_cache_hint(JsonWriter& json, const std::optional<CacheHint>& cache);

// What other protocols call text: documents of plain text are some.
bool is_text(const Part& part);
// A string as long as it is text only, since there are servers that read nothing else.
Result<void> write_content(JsonWriter& json, const Content& content, Omitted& omitted);
Result<void> write_part(JsonWriter& json, const Part& part, Omitted& omitted);
std::string joined_text(const Content& content, std::string_view separator);
bool is_media(const Part& part);  // that is not plain text

// Refuses what only another protocol knows.
Result<void> expect_known(const Part& part);

}  // namespace pons::models::chat
