#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/models/message.h"

namespace pons::models {

// What is asked of every request on its way, found without reading the conversation in it. Names
// that stand twice are refused: a provider might take the other one.
struct RequestFacts {
  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  std::string model;
  Span model_span;  // of the JSON string, quotes and all
  bool stream = false;
  std::optional<std::int64_t> output_tokens_max = std::nullopt;
  // kChat: whether the client wants the chunk with the usage; its stream_options, if any.
  bool wants_usage = false;
  std::optional<Span> stream_options = std::nullopt;
  std::int64_t choices = 1;               // kChat's n: each is an answer of its own
  std::string cache_key = {};             // whoever sends it wants to meet the same provider again
  std::string previous_response_id = {};  // kResponses: only who made it knows it
  // Part of the prompt is at the provider already, or fetched by it or by a tool that it runs:
  // nobody here knows its length.
  bool has_remote_prompt = false;
  std::int64_t remote_images = 0;  // the same of images, whose length has bounds
  bool may_search = false;         // the web, by a tool of the provider's own that costs extra
  // Pictures and files that stand in the request as Base64: no text, whatever their length.
  std::size_t inline_bytes = 0;
  std::int64_t inline_images = 0;
  std::int64_t inline_document_tokens = 0;  // at the most
  bool caches_for_an_hour = false;          // what is written to a cache so costs more
  bool asks_to_think = false;
  Span opening = {};  // the first message of the user; empty: there is none
  // Of the usual price, as it costs with the service that is asked for: a faster one is dearer.
  // What is cheaper counts as usual.
  std::int64_t price_percent = 100;
  // Somewhere in it stands thinking that another provider must see again, and this one cannot
  // believe: it has to be read and written anew.
  bool carries_proof = false;
};

// `body` is changed by nothing but its capacity: the reader looks a little past the end.
Result<RequestFacts> read_facts(Protocol protocol, std::string& body);

// The same request for a model of another name. kChat streams ask for their usage in any case.
void rename_model(Protocol protocol, std::string& body, const RequestFacts& facts,
                  std::string_view model);

// How many tokens a text of so many bytes most likely is, or a few more: prose in any of the
// languages people use, or code.
std::int64_t estimate_tokens(std::size_t bytes);
// How many it is at the most: hexadecimal digits, Base64 and the like, too.
std::int64_t most_tokens(std::size_t bytes);
// The same of a request, whose pictures and files are no text.
std::int64_t likely_prompt_tokens(const RequestFacts& facts, std::size_t body_bytes);
std::int64_t most_prompt_tokens(const RequestFacts& facts, std::size_t body_bytes);

// Asked for where a protocol wants a limit of the answer and the client names none.
inline constexpr std::int64_t kOutputTokensDefault = 32'000;

}  // namespace pons::models
