#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// A conversation with a model, in the one form that all protocols are read into and written from.
// Text that only its author can read (schemas, arguments, proofs) stays the JSON it came as.

namespace pons::models {

// kMessages: Anthropic Messages; kChat: OpenAI Chat Completions; kResponses: OpenAI Responses.
enum class Protocol : std::uint8_t { kMessages, kChat, kResponses };
std::string_view name_of(Protocol protocol);  // "messages", "chat", "responses"

// Where the prompt up to here may be kept by the provider.
struct CacheHint {
  bool one_hour = false;  // else five minutes
  bool operator==(const CacheHint&) const = default;
};

// A field that has no place in this form: goes on within its protocol; to others it is either lost,
// which the caller is told, or refused.
struct ExtraField {
  std::string name;
  std::string json;
  bool operator==(const ExtraField&) const = default;
};

struct TextPart {
  std::string text;
  std::string citations = {};  // JSON array in the form of `cited_in`; empty: none
  Protocol cited_in = Protocol::kMessages;
  bool operator==(const TextPart&) const = default;
};

// What a model declined to say, in the model's words.
struct RefusalPart {
  std::string text;
  bool operator==(const RefusalPart&) const = default;
};

// An image or a document.
struct MediaPart {
  enum class Kind : std::uint8_t { kImage, kDocument };
  enum class Source : std::uint8_t { kBase64, kUrl, kFile, kText };
  Kind kind = Kind::kImage;
  Source source = Source::kBase64;
  std::string media_type = {};  // empty where the protocol does not say
  std::string data = {};        // base64 text, the URL, the file's id, or plain text
  std::string name = {};        // a document's title or file name
  std::string context = {};     // of a document, for the model
  std::string detail = {};      // of an image: low, high, auto
  bool with_citations = false;  // the answer is to say where in the document it stands
  bool operator==(const MediaPart&) const = default;
};

// Reasoning. The proof is what its author needs to believe that it is his, unchanged: of kMessages
// the signature, of kResponses a JSON object {"id","encrypted_content"}, of kChat nothing or the
// JSON list of a provider's own reasoning_details.
struct ThinkingPart {
  std::string text;
  std::string proof = {};
  Protocol author = Protocol::kMessages;
  bool redacted = false;  // kMessages' redacted_thinking: the proof is its data, there is no text
  bool operator==(const ThinkingPart&) const = default;
};

struct ToolCallPart {
  std::string id;
  std::string name;
  std::string input;       // JSON text as the model wrote it; of a free-form tool, plain text
  std::string space = {};  // kResponses' namespace of the tool
  bool free_form = false;  // kResponses' and kChat's custom tools
  bool operator==(const ToolCallPart&) const = default;
};

struct Part;
struct ToolResultPart {
  std::string call_id;
  std::vector<Part> content;  // text, refusals and media
  bool is_error = false;
  bool free_form = false;
  bool operator==(const ToolResultPart&) const = default;
};

// What only its own protocol knows (server tools and their results, compaction …): passed on within
// it, refused by name by the writers of others.
struct OpaquePart {
  Protocol protocol = Protocol::kMessages;
  std::string type;
  std::string json;
  bool operator==(const OpaquePart&) const = default;
};

struct Part {
  std::variant<TextPart, RefusalPart, MediaPart, ThinkingPart, ToolCallPart, ToolResultPart,
               OpaquePart>
      content;
  std::optional<CacheHint> cache = std::nullopt;
  std::vector<ExtraField> extras = {};  // for its own protocol only; others lose them
  bool operator==(const Part&) const = default;
};

enum class Role : std::uint8_t { kSystem, kDeveloper, kUser, kAssistant };

// Tool calls stand in messages of the assistant, tool results in those of the user, in the order in
// which they were written; neighbours may have the same role.
struct Message {
  Role role = Role::kUser;
  std::vector<Part> parts;
  bool is_instructions = false;  // kResponses: said beside the conversation, in its own field
  std::vector<ExtraField> extras = {};  // for its own protocol only; others lose them
  bool operator==(const Message&) const = default;
};

struct Tool {
  enum class Kind : std::uint8_t { kFunction, kFreeForm, kServer };
  Kind kind = Kind::kFunction;
  std::string name;
  std::string description = {};
  std::string schema = {};  // JSON; of kFreeForm the format; of kServer the whole tool
  std::string space = {};   // kResponses' namespace; its description in space_description
  std::string space_description = {};
  std::optional<bool> strict = std::nullopt;
  std::optional<CacheHint> cache = std::nullopt;
  Protocol protocol = Protocol::kMessages;  // of kServer: who knows it
  std::vector<ExtraField> extras = {};      // for its own protocol only; others lose them
  bool operator==(const Tool&) const = default;
};

struct ToolChoice {
  enum class Kind : std::uint8_t { kUnset, kAuto, kAny, kNone, kOne };
  Kind kind = Kind::kUnset;
  std::string name = {};  // of kOne
  bool operator==(const ToolChoice&) const = default;
};

// How much a model is to think before it answers.
struct ThinkingWish {
  enum class Kind : std::uint8_t { kUnset, kOff, kBudget, kEffort, kAdaptive };
  Kind kind = Kind::kUnset;
  std::int64_t budget_tokens = 0;  // of kBudget
  std::string effort = {};   // of kEffort, and with kAdaptive if said: none, minimal, low, medium,
                             // high, xhigh, max
  std::string summary = {};  // kResponses' reasoning.summary; empty: not asked for
  bool operator==(const ThinkingWish&) const = default;
};

struct OutputFormat {
  enum class Kind : std::uint8_t { kText, kJson, kSchema };
  Kind kind = Kind::kText;
  std::string name = {};
  std::string schema = {};  // JSON
  std::string description = {};
  std::optional<bool> strict = std::nullopt;
  bool operator==(const OutputFormat&) const = default;
};

struct Request {
  Protocol protocol = Protocol::kMessages;  // what it was read from
  std::string model;
  std::vector<Message> messages;  // system messages stand where they were said
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  std::optional<bool> parallel_tools = std::nullopt;
  std::optional<std::int64_t> output_tokens_max = std::nullopt;
  bool has_newer_limit = false;  // kChat: it is called max_completion_tokens
  std::optional<double> temperature = std::nullopt;
  std::optional<double> top_p = std::nullopt;
  std::optional<std::int64_t> top_k = std::nullopt;
  std::optional<std::int64_t> seed = std::nullopt;
  std::vector<std::string> stop;
  ThinkingWish thinking;
  OutputFormat format;
  std::string user = {};  // an opaque name of the end user
  bool stream = false;
  bool stream_usage = true;  // false: a client of kChat that did not ask for the usage chunk
  std::vector<ExtraField> extras = {};
  bool operator==(const Request&) const = default;
};

}  // namespace pons::models
