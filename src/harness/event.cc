#include "pons/harness/event.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "pons/base/text.h"

namespace pons::harness {

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::kCredential:
      return "credential";
    case Fault::kRateLimit:
      return "rate_limit";
    case Fault::kBudget:
      return "budget";
    case Fault::kUnavailable:
      return "unavailable";
    case Fault::kTimeout:
      return "timeout";
    case Fault::kMalformed:
      return "malformed";
    case Fault::kHarness:
      return "harness";
    case Fault::kOther:
      return "other";
  }
  return "";
}

std::string_view name_of(Ending ending) {
  switch (ending) {
    case Ending::kDone:
      return "done";
    case Ending::kInterrupted:
      return "interrupted";
    case Ending::kFailed:
      return "failed";
  }
  return "";
}

Fault fault_of_status(std::int64_t status) {
  if (status == 401 || status == 403) return Fault::kCredential;
  if (status == 402) return Fault::kBudget;
  if (status == 429) return Fault::kRateLimit;
  if (status == 408 || status == 504) return Fault::kTimeout;
  if (status >= 500 && status < 600) return Fault::kUnavailable;
  return Fault::kOther;
}

namespace {

// The first number of three digits from 400 to 599 that stands alone.
std::optional<std::int64_t> find_status(std::string_view text) {
  const auto is_digit = [&](std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = 0; at + 3 <= text.size(); ++at) {
    if (!is_digit(at) || (at > 0 && is_digit(at - 1))) continue;
    if (!is_digit(at + 1) || !is_digit(at + 2) || is_digit(at + 3)) continue;
    const auto number = parse_decimal(text.substr(at, 3));
    if (number && *number >= 400 && *number < 600) return static_cast<std::int64_t>(*number);
  }
  return std::nullopt;
}

struct Word {
  std::string_view text;
  Fault fault;
};

// In the order in which they are looked for: a budget is told of by a 429, too.
constexpr std::array kWords = {
    Word{"budget", Fault::kBudget},
    Word{"insufficient_quota", Fault::kBudget},
    Word{"unauthorized", Fault::kCredential},
    Word{"authentication", Fault::kCredential},
    Word{"invalid api key", Fault::kCredential},
    Word{"rate limit", Fault::kRateLimit},
    Word{"rate_limit", Fault::kRateLimit},
    Word{"too many requests", Fault::kRateLimit},
    Word{"timed out", Fault::kTimeout},
    Word{"timeout", Fault::kTimeout},
    Word{"overloaded", Fault::kUnavailable},
    Word{"unavailable", Fault::kUnavailable},
    Word{"internal server error", Fault::kUnavailable},
    Word{"connection", Fault::kUnavailable},
    Word{"disconnected", Fault::kUnavailable},
    Word{"econnrefused", Fault::kUnavailable},
    Word{"fetch failed", Fault::kUnavailable},
    Word{"unexpected token", Fault::kMalformed},
    Word{"malformed", Fault::kMalformed},
    Word{"parse", Fault::kMalformed},
    Word{"json", Fault::kMalformed},
};

}  // namespace

Fault fault_of(std::string_view message) {
  std::string low(message.substr(0, 4'096));
  std::ranges::transform(low, low.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto status = find_status(low);
  if (status && *status != 429 && fault_of_status(*status) != Fault::kOther)
    return fault_of_status(*status);
  for (const Word& word : kWords)
    if (low.find(word.text) != std::string::npos) return word.fault;
  return status ? fault_of_status(*status) : Fault::kOther;
}

Fault fault_of(std::int64_t status, std::string_view message) {
  const Fault fault = status == 0 ? Fault::kOther : fault_of_status(status);
  return fault == Fault::kOther ? fault_of(message) : fault;
}

}  // namespace pons::harness
