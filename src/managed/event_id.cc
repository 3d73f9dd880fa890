#include "event_id.h"

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::managed {

namespace {

constexpr std::string_view kPrefix = "sevt_";
constexpr std::size_t kMarkDigits = 10;
constexpr std::size_t kSeqDigits = 10;
constexpr int kParts = 10;

std::string mark_of(std::string_view session) {
  return sha256_hex(session).substr(0, kMarkDigits);
}

}  // namespace

std::string write_event_id(std::string_view session, EventId id) {
  return fmt::format("{}{}{:010}{}", kPrefix, mark_of(session), id.seq, static_cast<int>(id.part));
}

std::optional<EventId> parse_event_id(std::string_view session, std::string_view text) {
  const std::string begin = std::string(kPrefix) + mark_of(session);
  if (!text.starts_with(begin) || text.size() != begin.size() + kSeqDigits + 1) return std::nullopt;
  const auto seq = parse_decimal(text.substr(begin.size(), kSeqDigits));
  const int part = text.back() - '0';
  if (!seq || *seq == 0 || part < 0 || part >= kParts) return std::nullopt;
  return EventId{.seq = static_cast<session::Seq>(*seq), .part = static_cast<Part>(part)};
}

}  // namespace pons::managed
