#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "pons/models/message.h"

namespace pons::models {

// Names and words of a request that say where its conversation is, and what of it is elsewhere or
// is no text.
enum class Word : std::uint8_t {
  kOther,
  kNone,  // the element of a list, which has no name
  kMessages,
  kInput,
  kSystem,
  kTools,
  kType,
  kId,
  kRole,
  kContent,
  kOutput,
  kUrl,
  kImageUrl,
  kFileUrl,
  kFileId,
  kFileData,
  kFile,
  kSource,
  kData,
  kImage,
  kInputImage,
  kItemReference,
  kCacheControl,
  kTtl,
};
constexpr std::array<std::pair<std::string_view, Word>, 22> kWords = {
    {{"type", Word::kType},
     {"role", Word::kRole},
     {"content", Word::kContent},
     {"id", Word::kId},
     {"messages", Word::kMessages},
     {"input", Word::kInput},
     {"system", Word::kSystem},
     {"tools", Word::kTools},
     {"output", Word::kOutput},
     {"url", Word::kUrl},
     {"image_url", Word::kImageUrl},
     {"file_url", Word::kFileUrl},
     {"file_id", Word::kFileId},
     {"file_data", Word::kFileData},
     {"file", Word::kFile},
     {"source", Word::kSource},
     {"data", Word::kData},
     {"image", Word::kImage},
     {"input_image", Word::kInputImage},
     {"item_reference", Word::kItemReference},
     {"cache_control", Word::kCacheControl},
     {"ttl", Word::kTtl}}};

inline Word word_of(std::string_view text) {
  const auto* const found =
      std::ranges::find(kWords, text, &std::pair<std::string_view, Word>::first);
  return found == kWords.end() ? Word::kOther : found->second;
}

// Whether a tool of that type is run by the client, or at least brings nothing into the prompt that
// is not in the request. `text` goes on behind the end of the type; what is not known here is run
// by the provider, and so is what is written with escapes.
bool is_run_by_client(std::string_view text);

// What a conversation names and does not hold, and what it holds that is no text. It sees names,
// words and brackets as they pass; what a client calls its own tools' arguments is mistaken for
// more only if it looks the same.
class Remotes {
 public:
  explicit Remotes(Protocol protocol) : protocol_(protocol) {}

  enum class Bracket : std::uint8_t { kObject, kList };
  // What comes is the value of that field of the request.
  void begin_field(Word name) { field_ = name; }
  void open(Word name, Bracket bracket, std::size_t at);
  void close(std::size_t at);
  // A string of so many bytes. `text` goes on behind its end.
  void see(Word name, Word value, std::string_view text, std::size_t bytes);

  std::int64_t images = 0;
  bool documents = false;
  bool references = false;  // kResponses: items that only their maker has
  bool searches = false;    // the provider may search the web
  bool tools = false;       // of the provider's own: what they find becomes part of the prompt
  bool hour = false;        // part of the prompt is to be kept for longer than usual
  // Pictures and files that are in the request as Base64.
  std::size_t inline_bytes = 0;
  std::int64_t inline_images = 0;
  std::int64_t inline_document_tokens = 0;
  // The first message of the user; empty when there is none.
  std::size_t opening_begin = 0;
  std::size_t opening_end = 0;

 private:
  struct Object {
    Word name;
    Bracket bracket;
    std::size_t at;
    bool is_shown = false;  // blocks of the conversation are here, or what they hold
    bool has_id = false;
    bool says_what = false;  // by a type or a role
    bool is_user = false;
    bool is_image = false;
    bool is_remote = false;
    bool is_text = false;  // of a source: its data are no Base64
    std::size_t inline_bytes = 0;
  };

  bool is_conversation() const {
    return field_ == Word::kMessages || field_ == Word::kInput || field_ == Word::kSystem;
  }
  bool is_tool() const;
  bool is_shown(Word name) const;
  void see_type(Object& here, Word value, std::string_view text);
  void see_place(Object& here, Word name, std::string_view text, std::size_t bytes);
  void count(const Object& ended);
  bool is_place(Word name, const Object& here) const;
  bool is_data(Word name, const Object& here) const;

  Protocol protocol_;
  Word field_ = Word::kOther;
  std::vector<Object> open_;
};

}  // namespace pons::models
