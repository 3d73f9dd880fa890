#include "messages/blocks_in.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/models/thinking.h"

namespace pons::models::messages {

namespace {

// Blocks that have a meaning only to Anthropic: kept as they are.
constexpr std::array<std::string_view, 12> kOpaque = {
    "search_result",    "server_tool_use", "mcp_tool_use",  "mcp_tool_result",
    "container_upload", "compaction",      "tool_addition", "tool_removal",
    "mcp_tool_listing", "fallback",        "browser_state", "tool_reference"};

bool is_opaque(std::string_view type, Place place) {
  return place == Place::kAnswer || type.ends_with("_tool_result") ||
         std::ranges::find(kOpaque, type) != kOpaque.end();
}

Part opaque(const JsonNode& block, std::string_view type) {
  return {
      OpaquePart{.protocol = Protocol::kMessages, .type = std::string(type), .json = block.raw()}};
}

// But for those that an answer of ours has made of another protocol's: they end here.
Result<std::string> read_citations(const JsonNode& citations) {
  std::string kept;
  TRY_VOID(citations.for_each([&](const JsonNode& citation) -> Result<void> {
    const auto index = citation.string_or("encrypted_index", "");
    if (index && index->starts_with(kCarriedProof)) return {};
    kept += (kept.empty() ? "[" : ",") + citation.raw();
    return {};
  }));
  if (!kept.empty()) kept += "]";
  return kept;
}

Result<Part> read_text(const JsonNode& block) {
  TextPart text{.text = std::string(TRY(block.string_at("text")))};
  if (const auto citations = block.find("citations")) {
    text.citations = TRY(read_citations(*citations));
  }
  Part part{std::move(text)};
  keep_extras(block, std::array<KnownField, 4>{{{"type"}, {"text"}, {"citations"}, kCacheControl}},
              part.extras);
  return part;
}

// Nothing: a source that only Anthropic knows.
Result<bool> read_source(const JsonNode& source, MediaPart& media) {
  TRY_VOID(source.expect_object());
  const std::string_view type = TRY(source.string_at("type"));
  std::string_view key = "data";
  if (type == "base64") {
    media.source = MediaPart::Source::kBase64;
  } else if (type == "text" && media.kind == MediaPart::Kind::kDocument) {
    media.source = MediaPart::Source::kText;
  } else if (type == "url") {
    media.source = MediaPart::Source::kUrl;
    key = "url";
  } else if (type == "file") {
    media.source = MediaPart::Source::kFile;
    key = "file_id";
  } else {
    return false;
  }
  media.data = TRY(source.string_at(key));
  if (key == "data") media.media_type = TRY(source.string_or("media_type", ""));
  return true;
}

Result<Part> read_media(const JsonNode& block, MediaPart::Kind kind) {
  MediaPart media{.kind = kind};
  const JsonNode source = TRY(block.at("source"));
  if (!TRY(read_source(source, media)))
    return opaque(block, kind == MediaPart::Kind::kImage ? "image" : "document");
  if (kind == MediaPart::Kind::kDocument) {
    media.name = TRY(block.string_or("title", ""));
    media.context = TRY(block.string_or("context", ""));
    if (const auto citations = block.find("citations"))
      media.with_citations = TRY(citations->bool_at("enabled")).value_or(false);
  }
  Part part{std::move(media)};
  constexpr KnownField kSource = {"source", {"type", "media_type", "data", "url", "file_id"}};
  constexpr std::array<KnownField, 3> kImage = {{{"type"}, kSource, kCacheControl}};
  constexpr std::array<KnownField, 6> kDocument = {
      {{"type"}, kSource, kCacheControl, {"title"}, {"context"}, {"citations", {"enabled"}}}};
  if (kind == MediaPart::Kind::kImage)
    keep_extras(block, kImage, part.extras);
  else
    keep_extras(block, kDocument, part.extras);
  return part;
}

// Of another provider's thinking the block carries the proof in the place of the signature.
Result<Part> read_thinking(const JsonNode& block, Place place, bool redacted) {
  ThinkingPart thinking{.text = {}, .redacted = redacted};
  if (redacted) {
    thinking.proof = TRY(block.string_at("data"));
  } else {
    thinking.text = TRY(block.string_at("thinking"));
    thinking.proof = TRY(block.string_or("signature", ""));
  }
  if (place != Place::kAnswer)
    if (auto carried = carried_proof(thinking.proof)) thinking = std::move(*carried);
  Part part{std::move(thinking)};
  keep_extras(
      block,
      std::array<KnownField, 5>{{{"type"}, {"thinking"}, {"signature"}, {"data"}, kCacheControl}},
      part.extras);
  return part;
}

Result<Part> read_tool_use(const JsonNode& block) {
  const auto input = block.find("input");
  if (input) TRY_VOID(input->expect_object());
  Part part{ToolCallPart{.id = std::string(TRY(block.string_at("id"))),
                         .name = std::string(TRY(block.string_at("name"))),
                         .input = input ? input->raw() : "{}"}};
  keep_extras(block,
              std::array<KnownField, 5>{{{"type"}, {"id"}, {"name"}, {"input"}, kCacheControl}},
              part.extras);
  return part;
}

Result<Part> read_tool_result(const JsonNode& block) {
  ToolResultPart result{.call_id = std::string(TRY(block.string_at("tool_use_id"))), .content = {}};
  if (const auto content = block.find("content"))
    result.content = TRY(read_content(*content, Place::kToolResult));
  result.is_error = TRY(block.bool_at("is_error")).value_or(false);
  Part part{std::move(result)};
  keep_extras(block,
              std::array<KnownField, 5>{
                  {{"type"}, {"tool_use_id"}, {"content"}, {"is_error"}, kCacheControl}},
              part.extras);
  return part;
}

Result<Part> read_by_type(const JsonNode& block, std::string_view type, Place place) {
  const bool of_user = place == Place::kUser;
  const bool of_model = place == Place::kAssistant || place == Place::kAnswer;
  if (type == "text") return read_text(block);
  if (of_user || place == Place::kToolResult) {
    if (type == "image") return read_media(block, MediaPart::Kind::kImage);
    if (type == "document") return read_media(block, MediaPart::Kind::kDocument);
  }
  if (of_user && type == "tool_result") return read_tool_result(block);
  if (of_model && type == "tool_use") return read_tool_use(block);
  if (of_model && type == "thinking") return read_thinking(block, place, false);
  if (of_model && type == "redacted_thinking") return read_thinking(block, place, true);
  if (is_opaque(type, place)) return opaque(block, type);
  constexpr std::size_t kShownMax = 64;
  return TRY(block.at("type"))
      .error(fmt::format("\"{}\" is not a kind of content here", type.substr(0, kShownMax)));
}

}  // namespace

Result<Part> read_block(const JsonNode& block, Place place) {
  const std::string_view type = TRY(block.string_at("type"));
  Part part = TRY(read_by_type(block, type, place));
  // An opaque block keeps its own in its JSON.
  if (!std::holds_alternative<OpaquePart>(part.content)) part.cache = TRY(read_cache(block));
  return part;
}

Result<std::vector<Part>> read_content(const JsonNode& content, Place place) {
  std::vector<Part> parts;
  if (content.is_string()) {
    parts.push_back({TextPart{.text = std::string(TRY(content.as_string()))}});
    return parts;
  }
  if (!content.is_array()) return content.error("must be a string or a list of blocks");
  TRY_VOID(content.for_each([&](const JsonNode& block) -> Result<void> {
    parts.push_back(TRY(read_block(block, place)));
    return {};
  }));
  return parts;
}

Result<std::optional<CacheHint>> read_cache(const JsonNode& holder) {
  const auto control = holder.find("cache_control");
  if (!control) return std::optional<CacheHint>();
  TRY_VOID(control->expect_object());
  const auto type = TRY(control->at("type"));
  if (TRY(type.as_string()) != "ephemeral") return type.error("must be \"ephemeral\"");
  const std::string_view ttl = TRY(control->string_or("ttl", "5m"));
  if (ttl != "5m" && ttl != "1h") return control->error("ttl must be \"5m\" or \"1h\"");
  return std::optional(CacheHint{.one_hour = ttl == "1h"});
}

void keep_extras(const JsonNode& object, std::span<const KnownField> known,
                 std::vector<ExtraField>& extras) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : simdjson::dom::object(object.value()))
    if (std::ranges::find(known, key, &KnownField::name) == known.end())
      extras.push_back({.name = std::string(key), .json = simdjson::minify(value)});
  for (const KnownField& field : known) {
    if (field.inner[0].empty()) continue;
    const auto found = object.find(field.name);
    if (!found || !found->is_object()) continue;
    for (const auto& [key, value] : simdjson::dom::object(found->value())) {
      if (std::ranges::find(field.inner, key) != field.inner.end()) continue;
      extras.push_back({.name = std::string(field.name), .json = found->raw()});
      break;
    }
  }
}

}  // namespace pons::models::messages
