#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "json_node.h"
#include "pons/models/message.h"

// Content blocks of the Messages protocol, as both requests and answers have them.

namespace pons::models::messages {

// Where a block stands decides what it may be.
enum class Place : std::uint8_t { kSystem, kUser, kAssistant, kToolResult, kAnswer };

Result<Part> read_block(const JsonNode& block, Place place);

// A string, or a list of blocks.
Result<std::vector<Part>> read_content(const JsonNode& content, Place place);

Result<std::optional<CacheHint>> read_cache(const JsonNode& holder);

// `inner` names what an object in the field may hold; when it holds more, the whole field is kept
// as an extra too, and a writer prefers that to what the model says.
struct KnownField {
  std::string_view name;
  std::array<std::string_view, 5> inner = {};
};
inline constexpr KnownField kCacheControl = {"cache_control", {"type", "ttl"}};

// Adds the fields of `object` that are not known, in their order.
void keep_extras(const JsonNode& object, std::span<const KnownField> known,
                 std::vector<ExtraField>& extras);

}  // namespace pons::models::messages
