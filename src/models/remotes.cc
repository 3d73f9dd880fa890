#include "remotes.h"

namespace pons::models {

namespace {

// A page of a file is text and a picture of it: a file of text is hardly more tokens than bytes,
// and services take no more than some hundred pages.
constexpr std::int64_t kDocumentTokensMin = 16'000;
constexpr std::int64_t kDocumentTokensMax = 300'000;

}  // namespace

bool is_run_by_client(std::string_view text) {
  constexpr std::array<std::string_view, 5> kWhole = {"function", "custom", "namespace",
                                                      "local_shell", "apply_patch"};
  // Anthropic's end with a date; a search among the tools finds what the request declares.
  constexpr std::array<std::string_view, 5> kBeginnings = {"bash_", "text_editor_", "computer",
                                                           "memory_", "tool_search"};
  const std::size_t end = text.find_first_of("\"\\");
  if (end == std::string_view::npos || text[end] != '"') return false;
  const std::string_view type = text.substr(0, end);
  return std::ranges::find(kWhole, type) != kWhole.end() ||
         std::ranges::any_of(kBeginnings,
                             [&](std::string_view begin) { return type.starts_with(begin); });
}

bool Remotes::is_tool() const {
  if (open_.size() < 2 || open_.back().bracket != Bracket::kObject) return false;
  const Object& list = open_[open_.size() - 2];
  if (list.bracket != Bracket::kList) return false;
  return open_.size() == 2 ? field_ == Word::kTools : list.name == Word::kTools;
}

// Arguments of calls have names of their own on the way to them.
bool Remotes::is_shown(Word name) const {
  if (open_.empty()) return is_conversation();
  if (!open_.back().is_shown) return false;
  switch (name) {
    case Word::kNone:
    case Word::kContent:
    case Word::kOutput:
    case Word::kSource:
    case Word::kImageUrl:
    case Word::kFile:
      return true;
    default:
      return false;
  }
}

void Remotes::open(Word name, Bracket bracket, std::size_t at) {
  open_.push_back({.name = name, .bracket = bracket, .at = at, .is_shown = is_shown(name)});
}

void Remotes::close(std::size_t at) {
  if (open_.empty()) return;
  const Object ended = open_.back();
  open_.pop_back();
  if (open_.size() == 1 && ended.is_user && opening_end == 0) {
    opening_begin = ended.at;
    opening_end = at + 1;
  }
  // An item that is nothing but its id need not say so.
  references = references || (ended.has_id && !ended.says_what && open_.size() == 1 &&
                              open_.front().bracket == Bracket::kList);
  if (ended.name != Word::kSource || open_.empty()) {
    count(ended);
    return;
  }
  // A source stands in the block that says what it is of.
  Object& block = open_.back();
  block.is_remote = block.is_remote || ended.is_remote;
  if (!ended.is_text) block.inline_bytes += ended.inline_bytes;
}

void Remotes::count(const Object& ended) {
  if (ended.is_remote) {
    if (ended.is_image)
      ++images;
    else
      documents = true;
  }
  if (ended.inline_bytes == 0) return;
  inline_bytes += ended.inline_bytes;
  if (ended.is_image)
    ++inline_images;
  else
    inline_document_tokens += std::clamp(static_cast<std::int64_t>(ended.inline_bytes / 4 * 3),
                                         kDocumentTokensMin, kDocumentTokensMax);
}

void Remotes::see(Word name, Word value, std::string_view text, std::size_t bytes) {
  if (open_.empty()) return;
  Object& here = open_.back();
  here.has_id = here.has_id || name == Word::kId;
  here.says_what = here.says_what || name == Word::kType || name == Word::kRole;
  if (name == Word::kType)
    see_type(here, value, text);
  else if (name == Word::kRole)
    here.is_user = here.is_user || (is_conversation() && text.starts_with("user\""));
  else if (name == Word::kTtl)
    hour = hour || (here.name == Word::kCacheControl && !text.starts_with("5m\""));
  else
    see_place(here, name, text, bytes);
}

void Remotes::see_type(Object& here, Word value, std::string_view text) {
  here.is_image = here.is_image || value == Word::kImage || value == Word::kInputImage;
  here.is_text = here.is_text || !text.starts_with("base64\"");
  references = references || value == Word::kItemReference;
  searches = searches || text.starts_with("web_search\"") || text.starts_with("web_search_2") ||
             text.starts_with("web_search_preview");
  if (!is_tool() || is_run_by_client(text)) return;
  tools = true;
  searches = searches || text.substr(0, text.find('"')).find('\\') != std::string_view::npos;
}

void Remotes::see_place(Object& here, Word name, std::string_view text, std::size_t bytes) {
  const bool is_image = name == Word::kImageUrl || here.name == Word::kImageUrl;
  if (is_data(name, here)) {
    if (!here.is_shown) return;
    here.inline_bytes += bytes;
    here.is_image = here.is_image || is_image;
    return;
  }
  if (!is_place(name, here) || text.starts_with('"')) return;
  if (text.starts_with("data:")) {
    if (here.is_shown) here.inline_bytes += bytes;
  } else {
    here.is_remote = true;
  }
  here.is_image = here.is_image || is_image;
}

// Where this protocol has addresses and ids.
bool Remotes::is_place(Word name, const Object& here) const {
  switch (protocol_) {
    case Protocol::kMessages:
      return here.name == Word::kSource && (name == Word::kUrl || name == Word::kFileId);
    case Protocol::kChat:
      return (here.name == Word::kImageUrl && name == Word::kUrl) || name == Word::kImageUrl ||
             (here.name == Word::kFile && name == Word::kFileId);
    case Protocol::kResponses:
      break;
  }
  return name == Word::kImageUrl || name == Word::kFileUrl || name == Word::kFileId;
}

// Where it has the bytes themselves.
bool Remotes::is_data(Word name, const Object& here) const {
  switch (protocol_) {
    case Protocol::kMessages:
      return here.name == Word::kSource && name == Word::kData;
    case Protocol::kChat:
      return here.name == Word::kFile && name == Word::kFileData;
    case Protocol::kResponses:
      break;
  }
  return name == Word::kFileData;
}

}  // namespace pons::models
