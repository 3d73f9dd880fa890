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
  bool has_remote_prompt = false;         // part of the prompt is at the provider already
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

// How many tokens a text of so many bytes is at the most, in any of the languages people use.
std::int64_t estimate_tokens(std::size_t bytes);

}  // namespace pons::models
