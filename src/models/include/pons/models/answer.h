#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pons/base/clock.h"
#include "pons/models/message.h"

// What comes back from a model: whole, or as the events that build it up.

namespace pons::models {

// Each token is counted in one place only; reasoning is the exception, it is part of output.
struct Usage {
  std::int64_t input = 0;  // neither read from a cache nor written to one
  std::int64_t cache_read = 0;
  std::int64_t cache_write = 0;       // for five minutes
  std::int64_t cache_write_hour = 0;  // for an hour
  std::int64_t output = 0;
  std::optional<std::int64_t> reasoning = std::nullopt;  // nothing: the provider did not say
  std::int64_t searches = 0;  // of the web, that the provider made and takes money for

  std::int64_t prompt() const { return input + cache_read + cache_write + cache_write_hour; }
  bool operator==(const Usage&) const = default;
};

enum class Stop : std::uint8_t {
  kEnd,
  kMaxTokens,
  kToolUse,
  kStopSequence,
  kRefusal,
  kPause,          // a server tool wants another turn
  kContextWindow,  // the window is full
};

struct Answer {
  std::string id;
  std::string model;
  std::vector<Part> parts;
  Stop stop = Stop::kEnd;
  std::string stop_sequence = {};
  Usage usage;
  bool operator==(const Answer&) const = default;
};

// Why a model call failed, as far as a caller can act on it.
enum class Failing : std::uint8_t {
  kInvalidRequest,
  kAuthentication,  // the caller's key
  kPermission,
  kNotFound,
  kTooLarge,
  kContextLength,  // the prompt does not fit the model
  kRateLimit,
  kBudget,      // the caller's money, tokens or requests are used up
  kOverloaded,  // of the provider: 503, 529
  kTimeout,
  kUpstream,  // the provider failed, or said what nobody can read
};

struct Failure {
  Failing kind = Failing::kUpstream;
  std::string message;
  std::string code = {};  // OpenAI's finer word, where there is one
  std::optional<Duration> retry_after = std::nullopt;
  bool operator==(const Failure&) const = default;
};

// The events of one answer, in this order: AnswerBegins, then for each part PartBegins, its deltas,
// PartEnds (parts never overlap), then AnswerEnds; a Failure may come at any place and is the last.
struct AnswerBegins {
  std::string id;
  std::string model;
  Usage usage;  // what is known so far
};
struct PartBegins {
  Part part;  // without text or input yet; a tool call has its id and name
};
// The next piece of the open part: its text, its thinking's text, or its tool call's input.
struct PartGrows {
  std::string_view text;  // lives as long as the call that brings it
};
// Of the open thinking part.
struct ProofCame {
  std::string proof;
};
// Of the open text part: one citation.
struct CitationCame {
  std::string json;
  Protocol cited_in = Protocol::kMessages;
};
struct PartEnds {};
struct AnswerEnds {
  Stop stop = Stop::kEnd;
  std::string stop_sequence = {};
  Usage usage;
};
using AnswerEvent = std::variant<AnswerBegins, PartBegins, PartGrows, ProofCame, CitationCame,
                                 PartEnds, AnswerEnds, Failure>;

// Builds the whole answer from its events.
class AnswerBuilder {
 public:
  void take(const AnswerEvent& event);
  bool is_whole() const { return whole_; }
  const std::optional<Failure>& failure() const { return failure_; }
  Answer& answer() { return answer_; }

 private:
  Answer answer_;
  std::optional<Failure> failure_;
  bool whole_ = false;
};

// The events of a whole answer: what a provider that does not stream gives to a client that does.
std::vector<AnswerEvent> events_of(const Answer& answer);

}  // namespace pons::models
