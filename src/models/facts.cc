#include "pons/models/facts.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <simdjson.h>

#include "json_node.h"
#include "json_writer.h"
#include "pons/base/text.h"
#include "pons/models/thinking.h"
#include "remotes.h"
#include "shared_document.h"

namespace pons::models {

namespace {

Error refuse(std::string message) {
  return make_error(ErrorCode::kInvalid, "read request", std::move(message));
}

constexpr std::array<std::string_view, 20> kKnown = {"model",
                                                     "stream",
                                                     "max_tokens",
                                                     "max_completion_tokens",
                                                     "max_output_tokens",
                                                     "stream_options",
                                                     "prompt_cache_key",
                                                     "previous_response_id",
                                                     "conversation",
                                                     "prompt",
                                                     "background",
                                                     "service_tier",
                                                     "speed",
                                                     "inference_geo",
                                                     "n",
                                                     "web_search_options",
                                                     "mcp_servers",
                                                     "thinking",
                                                     "reasoning",
                                                     "reasoning_effort"};

// What service of a kind costs, at the most, in percent of the usual price. Words that are not here
// may cost whatever the dearest does.
struct Surcharge {
  std::string_view key;
  std::int64_t most;
  std::array<std::string_view, 6> usual;
};
constexpr std::array kSurcharges = {
    Surcharge{
        "service_tier", 250, {"auto", "default", "flex", "scale", "standard", "standard_only"}},
    Surcharge{"speed", 600, {"standard"}},
    Surcharge{"inference_geo", 110, {"global", "not_available"}}};

// What the protocol itself calls the limit of an answer; others' names limit nothing.
bool is_output_limit(Protocol protocol, std::string_view key) {
  switch (protocol) {
    case Protocol::kMessages:
      return key == "max_tokens";
    case Protocol::kChat:
      return key == "max_tokens" || key == "max_completion_tokens";
    case Protocol::kResponses:
      break;
  }
  return key == "max_output_tokens";
}

// In a header field and in a log, a name must stay one word.
bool is_model_name(std::string_view name) {
  constexpr std::size_t kBytesMax = 128;
  return !name.empty() && name.size() <= kBytesMax &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7F; });
}

// The fields of an object, found by the places where simdjson sees a value or a bracket begin. Of
// what stands in the fields' own values only what is elsewhere is looked at: whoever answers the
// request reads the rest.
class FieldWalk {
 public:
  FieldWalk(std::string_view text, Protocol protocol) : text_(text), remotes_(protocol) {}

  // visit(std::string_view key, std::string_view value) -> Result<void>: both as they are written.
  template <class Visit>
  Result<void> run(Visit visit) {
    TRY_VOID(index());
    if (next() != '{') return refuse("the body must be a JSON object");
    if (peek() == '}') {
      next();
      return finish();
    }
    do {
      if (peek() != '"') return broken();
      const std::size_t key = place();
      next();
      if (next() != ':' || at_end()) return broken();
      const std::size_t begin = place();
      const Word field = word_at(key);
      remotes_.begin_field(field);
      TRY_VOID(skip_value());
      const std::size_t end = at_end() ? text_.size() : place();
      // A conversation may be one text.
      if (field == Word::kInput && text_[begin] == '"') {
        remotes_.opening_begin = begin;
        remotes_.opening_end = end;
      }
      TRY_VOID(visit(string_from(key), trim(text_.substr(begin, end - begin))));
      if (peek() == '}') {
        next();
        return finish();
      }
    } while (next() == ',');
    return broken();
  }

  // Whether a string in one of the values begins so.
  bool has_carried() const { return has_carried_; }
  const Remotes& remotes() const { return remotes_; }

  // The JSON string that begins there, quotes and all.
  std::string_view string_from(std::size_t begin) const {
    std::size_t end = begin + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    return text_.substr(begin, end + 1 - begin);
  }

 private:
  Result<void> index() {
    // Kept from one request to the next: its memory is as large as the largest of them.
    thread_local simdjson::dom::parser parser;
    if (parser.capacity() < text_.size() || !parser.implementation)
      if (const auto failed = parser.allocate(text_.size()))
        return refuse(simdjson::error_message(failed));
    if (const auto failed =
            parser.implementation->stage1(reinterpret_cast<const std::uint8_t*>(text_.data()),
                                          text_.size(), simdjson::stage1_mode::regular))
      return refuse(fmt::format("the body is not JSON: {}", simdjson::error_message(failed)));
    places_ = {parser.implementation->structural_indexes.get(),
               parser.implementation->n_structural_indexes};
    return {};
  }

  bool at_end() const { return at_ >= places_.size(); }
  std::size_t place() const { return places_[at_]; }
  char peek() const { return at_end() ? '\0' : text_[place()]; }
  char next() { return at_end() ? '\0' : text_[places_[at_++]]; }
  Result<void> finish() const {
    if (!at_end()) return refuse("there is text behind the JSON object");
    return {};
  }
  static Error broken() {
    return refuse("the body is not JSON: it ends or breaks off in an object");
  }

  // Which of ours the string is whose quote stands there.
  Word word_at(std::size_t quote) const {
    constexpr std::size_t kLongest = 6 * 14;  // with every letter as an escape
    const std::string_view rest = text_.substr(quote + 1, kLongest + 1);
    const std::size_t end = rest.find_first_of("\"\\");
    if (end == std::string_view::npos) return Word::kOther;
    if (rest[end] == '"') return word_of(rest.substr(0, end));
    const std::string_view whole = string_from(quote);
    if (whole.size() > kLongest + 2) return Word::kOther;
    const auto parsed = shared_document(whole).parse(whole);
    return parsed && parsed->is_string() ? word_of(*parsed->as_string()) : Word::kOther;
  }

  // Each level is remembered until it ends, and 32 MB of brackets must not cost ten times as much.
  Result<void> skip_value() {
    constexpr std::size_t kDepthMax = 1024;
    std::size_t depth = 0;
    Word name = Word::kNone;  // of the value that comes
    do {
      if (at_end()) return broken();
      const std::size_t here = place();
      switch (next()) {
        case '"':
          if (depth > 0 && peek() == ':') {
            name = word_at(here);
            next();
            continue;
          }
          has_carried_ = has_carried_ || text_.substr(here + 1).starts_with(kCarriedProof);
          if (name != Word::kOther && name != Word::kNone)
            remotes_.see(name, name == Word::kType ? word_at(here) : Word::kOther,
                         text_.substr(here + 1), (at_end() ? text_.size() : place()) - here);
          break;
        case '{':
        case '[':
          if (++depth > kDepthMax) return refuse("the body is nested too deeply");
          remotes_.open(
              name, text_[here] == '{' ? Remotes::Bracket::kObject : Remotes::Bracket::kList, here);
          break;
        case '}':
        case ']':
          if (depth == 0) return broken();
          --depth;
          remotes_.close(here);
          break;
        default:
          break;
      }
      name = Word::kNone;
    } while (depth > 0);
    return {};
  }

  std::string_view text_;
  std::span<const std::uint32_t> places_;
  std::size_t at_ = 0;
  bool has_carried_ = false;
  Remotes remotes_;
};

bool is_null(std::string_view value) {
  return value == "null";
}

// A JSON string's text. Most have no escapes.
Result<std::string> unquoted(std::string_view value, std::string_view key) {
  if (is_null(value)) return std::string();
  if (!value.starts_with('"')) return refuse(fmt::format("{}: must be a string", key));
  if (value.size() >= 2 && value.find('\\') == std::string_view::npos)
    return std::string(value.substr(1, value.size() - 2));
  JsonDocument document;
  const auto parsed = document.parse(value);
  if (!parsed || !parsed->is_string()) return refuse(fmt::format("{}: must be a string", key));
  return std::string(*parsed->as_string());
}

Result<bool> truth_of(std::string_view value, std::string_view key) {
  if (value == "true") return true;
  if (value == "false" || is_null(value)) return false;
  return refuse(fmt::format("{}: must be true or false", key));
}

Result<std::optional<std::int64_t>> tokens_of(std::string_view value, std::string_view key) {
  if (is_null(value)) return std::optional<std::int64_t>();
  constexpr double kTokensMax = 1e9;
  constexpr std::size_t kPlainDigitsMax = 9;
  if (value.size() <= kPlainDigitsMax && !value.starts_with('0'))
    if (const auto plain = parse_decimal(value))
      return std::optional(static_cast<std::int64_t>(*plain));
  JsonDocument document;
  const auto parsed = document.parse(value);
  const auto number = parsed ? parsed->as_number() : Result<double>(Error{});
  if (!number || *number < 0 || *number > kTokensMax)
    return refuse(fmt::format("{}: must be a number of tokens", key));
  return std::optional(static_cast<std::int64_t>(*number));
}

class FactsReader {
 public:
  FactsReader(Protocol protocol, std::string_view body) : protocol_(protocol), body_(body) {}

  Result<void> take(std::string_view quoted_key, std::string_view value) {
    // A longer one is none of ours, however it is written.
    constexpr std::size_t kLongest = 6 * 32;
    if (quoted_key.size() > kLongest) return {};
    const std::string key = TRY(unquoted(quoted_key, "a name"));
    const auto* const known = std::ranges::find_if(
        kKnown, [&](std::string_view name) { return equal_ignoring_case(name, key); });
    if (known == kKnown.end()) return {};
    // Some servers do not mind the case of a name, and would take this one.
    if (*known != key) return refuse(fmt::format("\"{}\" must be written \"{}\"", key, *known));
    bool& seen = seen_[static_cast<std::size_t>(known - kKnown.begin())];
    if (seen) return refuse(fmt::format("\"{}\" is there twice", key));
    seen = true;
    return take_known(key, value);
  }

  RequestFacts facts;

 private:
  Result<void> take_known(std::string_view key, std::string_view value) {
    if (key == "model") {
      facts.model = TRY(unquoted(value, key));
      if (!is_model_name(facts.model))
        return refuse("model: must be a name of at most 128 visible characters");
      facts.model_span = span_of(value);
    } else if (key == "stream") {
      facts.stream = TRY(truth_of(value, key));
    } else if (key == "prompt_cache_key") {
      facts.cache_key = TRY(unquoted(value, key));
    } else if (key == "stream_options") {
      return take_stream_options(value);
    } else if (const auto* surcharge = std::ranges::find(kSurcharges, key, &Surcharge::key);
               surcharge != kSurcharges.end()) {
      return take_service(*surcharge, value);
    } else if (key == "n") {
      if (protocol_ == Protocol::kChat) facts.choices = TRY(tokens_of(value, key)).value_or(1);
    } else if (key == "web_search_options") {
      facts.may_search = !is_null(value);
      facts.has_remote_prompt = facts.has_remote_prompt || facts.may_search;
    } else if (key == "mcp_servers") {
      facts.has_remote_prompt = facts.has_remote_prompt || !(is_null(value) || value == "[]");
    } else if (key == "thinking" || key == "reasoning" || key == "reasoning_effort") {
      take_thinking(value);
    } else if (is_output_limit(protocol_, key)) {
      const auto tokens = TRY(tokens_of(value, key));
      if (tokens) facts.output_tokens_max = std::max(tokens, facts.output_tokens_max);
    } else if (protocol_ == Protocol::kResponses) {
      return take_of_responses(key, value);
    }
    return {};
  }

  Result<void> take_of_responses(std::string_view key, std::string_view value) {
    // Its answer would come later, and nobody would count it.
    if (key == "background" && value != "false" && !is_null(value))
      return refuse("background: answers that are fetched later are not supported; leave it out");
    // Whose it is, nobody here could tell.
    if (key == "conversation" && !is_null(value))
      return refuse(
          "conversation: conversations that the provider keeps are not supported; send the whole "
          "of it as input");
    if (key == "previous_response_id") facts.previous_response_id = TRY(unquoted(value, key));
    if (key == "previous_response_id" || key == "prompt")
      facts.has_remote_prompt = facts.has_remote_prompt || !is_null(value);
    return {};
  }

  Result<void> take_service(const Surcharge& surcharge, std::string_view value) {
    if (is_null(value)) return {};
    const std::string word = TRY(unquoted(value, surcharge.key));
    if (std::ranges::find(surcharge.usual, word) == surcharge.usual.end())
      facts.price_percent = facts.price_percent * surcharge.most / 100;
    return {};
  }

  // Of what says that there is to be none, the plain words only.
  void take_thinking(std::string_view value) {
    constexpr std::array<std::string_view, 3> kNone = {"null", R"("none")",
                                                       R"({"type":"disabled"})"};
    std::string words(value);
    std::erase_if(words, [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; });
    facts.asks_to_think =
        facts.asks_to_think || std::ranges::find(kNone, std::string_view(words)) == kNone.end();
  }

  // Whoever reads the last of two, or does not mind the case, would tell no usage.
  Result<void> take_stream_options(std::string_view value) {
    constexpr std::string_view kUsage = "include_usage";
    if (protocol_ != Protocol::kChat) return {};
    facts.stream_options = span_of(value);
    if (is_null(value)) return {};
    JsonDocument document;
    const JsonNode options = TRY(document.parse(value));
    if (!options.is_object()) return refuse("stream_options: must be an object");
    bool seen = false;
    TRY_VOID(options.for_each_field([&](std::string_view key,
                                        const JsonNode& wish) -> Result<void> {
      if (!equal_ignoring_case(key, kUsage)) return {};
      if (key != kUsage)
        return refuse(fmt::format("stream_options: \"{}\" must be written \"{}\"", key, kUsage));
      if (std::exchange(seen, true))
        return refuse(fmt::format("stream_options: \"{}\" is there twice", kUsage));
      if (!wish.is_null()) facts.wants_usage = TRY(wish.as_bool());
      return {};
    }));
    return {};
  }

  RequestFacts::Span span_of(std::string_view part) const {
    const auto begin = static_cast<std::size_t>(part.data() - body_.data());
    return {.begin = begin, .end = begin + part.size()};
  }

  Protocol protocol_;
  std::string_view body_;
  std::array<bool, kKnown.size()> seen_{};
};

}  // namespace

Result<RequestFacts> read_facts(Protocol protocol, std::string& body) {
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  FactsReader reader(protocol, body);
  FieldWalk walk(body, protocol);
  TRY_VOID(walk.run(
      [&](std::string_view key, std::string_view value) { return reader.take(key, value); }));
  const Remotes& remotes = walk.remotes();
  if (protocol == Protocol::kResponses && remotes.references)
    return refuse(
        "input: items that the provider keeps (item_reference) are not supported; send the items "
        "themselves");
  RequestFacts& facts = reader.facts;
  if (facts.model_span.end == 0) return refuse("\"model\" is missing");
  facts.carries_proof = walk.has_carried();
  facts.may_search = facts.may_search || remotes.searches;
  facts.has_remote_prompt = facts.has_remote_prompt || remotes.documents || remotes.tools;
  facts.remote_images = remotes.images;
  facts.inline_bytes = remotes.inline_bytes;
  facts.inline_images = remotes.inline_images;
  facts.inline_document_tokens = remotes.inline_document_tokens;
  facts.caches_for_an_hour = remotes.hour;
  facts.opening = {.begin = remotes.opening_begin, .end = remotes.opening_end};
  return std::move(facts);
}

namespace {

// The same stream_options, with the usage asked for.
std::string with_usage(std::string_view options) {
  if (is_null(options)) options = "{}";
  std::string text(options);
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  FieldWalk walk(text, Protocol::kChat);
  RequestFacts::Span answer;  // to the question whether it is wanted
  bool is_empty = true;
  (void)walk.run([&](std::string_view key, std::string_view value) -> Result<void> {
    is_empty = false;
    if (const auto name = unquoted(key, "a name"); name && *name == "include_usage") {
      answer.begin = static_cast<std::size_t>(value.data() - text.data());
      answer.end = answer.begin + value.size();
    }
    return {};
  });
  if (answer.end == 0)
    text.insert(1, fmt::format("\"include_usage\":true{}", is_empty ? "" : ","));
  else
    text.replace(answer.begin, answer.end - answer.begin, "true");
  return text;
}

}  // namespace

void rename_model(Protocol protocol, std::string& body, const RequestFacts& facts,
                  std::string_view model) {
  std::string quoted;
  JsonWriter(quoted).string(model);
  struct Change {
    RequestFacts::Span span;
    std::string text;
  };
  std::vector<Change> changes = {{.span = facts.model_span, .text = std::move(quoted)}};
  if (protocol == Protocol::kChat && facts.stream && !facts.wants_usage) {
    if (const auto& options = facts.stream_options)
      changes.push_back({.span = *options,
                         .text = with_usage(std::string_view(body).substr(
                             options->begin, options->end - options->begin))});
    else
      changes.front().text += R"(,"stream_options":{"include_usage":true})";
  }
  // From the back, so that places in front stay where they are.
  std::ranges::sort(changes, std::greater{}, [](const Change& c) { return c.span.begin; });
  for (const Change& change : changes)
    body.replace(change.span.begin, change.span.end - change.span.begin, change.text);
}

std::int64_t estimate_tokens(std::size_t bytes) {
  constexpr std::size_t kBytesPerToken = 3;
  return static_cast<std::int64_t>(bytes / kBytesPerToken) + 16;
}

std::int64_t most_tokens(std::size_t bytes) {
  constexpr std::size_t kBytesPerToken = 2;
  return static_cast<std::int64_t>(bytes / kBytesPerToken) + 16;
}

namespace {

std::size_t text_bytes(const RequestFacts& facts, std::size_t body_bytes) {
  return body_bytes - std::min(body_bytes, facts.inline_bytes);
}

}  // namespace

std::int64_t likely_prompt_tokens(const RequestFacts& facts, std::size_t body_bytes) {
  constexpr std::int64_t kImageTokens = 1'600;
  constexpr std::int64_t kMarginOfDocuments = 4;  // as a part of the most they can be
  return estimate_tokens(text_bytes(facts, body_bytes)) +
         kImageTokens * (facts.inline_images + facts.remote_images) +
         facts.inline_document_tokens / kMarginOfDocuments;
}

std::int64_t most_prompt_tokens(const RequestFacts& facts, std::size_t body_bytes) {
  // However large the file is, services make it smaller before they look: the most that one of them
  // takes is a picture of 10,000 patches.
  constexpr std::int64_t kInlineImageTokens = 10'000;
  constexpr std::int64_t kRemoteImageTokens = 16'000;
  return most_tokens(text_bytes(facts, body_bytes)) + kInlineImageTokens * facts.inline_images +
         kRemoteImageTokens * facts.remote_images + facts.inline_document_tokens;
}

}  // namespace pons::models
