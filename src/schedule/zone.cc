#include "pons/schedule/zone.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "posix_rules.h"

namespace pons::schedule {

namespace {

using namespace std::chrono;

Error refuse(const char* why) {
  return make_error(ErrorCode::kInvalid, "read time zone", why);
}

// The six counts of a header, in their order in the file.
struct Counts {
  std::uint32_t utc, standard, leaps, times, types, characters;
};
constexpr std::size_t kHeaderBytes = 44;
constexpr std::size_t kTypeBytes = 6;
constexpr std::uint32_t kTypesMax = 256;

std::uint64_t read_big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

// Of the file; each piece is taken only when it is there.
struct Reader {
  std::string_view left;

  std::optional<std::string_view> take(std::uint64_t size) {
    if (size > left.size()) return std::nullopt;
    const std::string_view piece = left.substr(0, size);
    left.remove_prefix(size);
    return piece;
  }
};

struct Header {
  char version;
  Counts counts;

  // Of the data behind it, whose times have so many bytes.
  std::uint64_t data_bytes(std::uint64_t time_bytes) const {
    const auto& c = counts;
    return c.times * (time_bytes + 1) + std::uint64_t{c.types} * kTypeBytes + c.characters +
           c.leaps * (time_bytes + 4) + c.standard + c.utc;
  }
};

std::optional<Header> read_header(Reader& reader) {
  const auto bytes = reader.take(kHeaderBytes);
  if (!bytes || !bytes->starts_with("TZif")) return std::nullopt;
  Header header{.version = (*bytes)[4], .counts = {}};
  std::size_t at = 20;
  for (std::uint32_t* count :
       {&header.counts.utc, &header.counts.standard, &header.counts.leaps, &header.counts.times,
        &header.counts.types, &header.counts.characters}) {
    *count = static_cast<std::uint32_t>(read_big_endian(bytes->substr(at, 4)));
    at += 4;
  }
  return header;
}

// Of each type of local time, what it is ahead of UTC.
Result<std::vector<seconds>> read_offsets(std::string_view bytes) {
  std::vector<seconds> offsets;
  for (; !bytes.empty(); bytes.remove_prefix(kTypeBytes)) {
    const seconds offset(static_cast<std::int32_t>(read_big_endian(bytes.substr(0, 4))));
    if (abs(offset) > Zone::kOffsetMax) return refuse("a clock is more than a day away from UTC");
    offsets.push_back(offset);
  }
  return offsets;
}

// Between the two newlines behind the data.
Result<std::string_view> read_footer(std::string_view left) {
  if (!left.starts_with('\n')) return refuse("its rule for the future is missing");
  const std::size_t end = left.find('\n', 1);
  if (end == std::string_view::npos) return refuse("it is cut off");
  return left.substr(1, end - 1);
}

sys_seconds limited(sys_seconds instant) {
  return std::clamp(instant, sys_seconds(Zone::kBegin), sys_seconds(Zone::kEnd) - seconds(1));
}

}  // namespace

Result<Zone> Zone::parse(std::string_view bytes) {
  Reader reader{bytes};
  // The first part is for programs of 1980, with times of four bytes.
  const auto old = read_header(reader);
  if (!old) return refuse("this is no TZif file");
  if (old->version < '2') return refuse("it is of version 1, which ends in 2037");
  if (!reader.take(old->data_bytes(4))) return refuse("it is cut off");
  const auto header = read_header(reader);
  if (!header) return refuse("its second part is missing");
  const Counts& counts = header->counts;
  if (counts.leaps != 0) return refuse("it counts leap seconds, which the clock does not");
  if (counts.types == 0 || counts.types > kTypesMax) return refuse("it has no type of local time");
  constexpr std::uint64_t kTimeBytes = 8;
  if (header->data_bytes(kTimeBytes) > reader.left.size()) return refuse("it is cut off");

  const std::string_view times = *reader.take(counts.times * kTimeBytes);
  const std::string_view types = *reader.take(counts.times);
  const auto offsets = TRY(read_offsets(*reader.take(counts.types * kTypeBytes)));
  reader.take(std::uint64_t{counts.characters} + counts.standard + counts.utc);
  const std::string_view footer = TRY(read_footer(reader.left));

  Zone zone;
  zone.first_offset_ = offsets.front();
  std::int64_t before = INT64_MIN;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto type = static_cast<unsigned char>(types[i]);
    const auto at =
        static_cast<std::int64_t>(read_big_endian(times.substr(i * kTimeBytes, kTimeBytes)));
    if (type >= offsets.size()) return refuse("a change leads to no type of local time");
    if (i > 0 && at <= before) return refuse("its changes are not in their order");
    before = at;
    if (at >= kEnd.time_since_epoch() / seconds(1)) return refuse("a change is beyond all time");
    if (at <= kBegin.time_since_epoch() / seconds(1))
      zone.first_offset_ = offsets[type];
    else
      zone.changes_.push_back({.at = sys_seconds(seconds(at)), .offset = offsets[type]});
  }
  if (footer.empty()) return zone;
  auto rules = TRY(parse_posix_rules(footer));
  zone.later_ = std::make_shared<const PosixRules>(std::move(rules));
  return zone;
}

Stretch Zone::stretch_at(sys_seconds instant) const {
  instant = limited(instant);
  const auto next = std::ranges::upper_bound(changes_, instant, {}, &Change::at);
  Stretch stretch{.begin = kBegin, .end = kEnd, .offset = first_offset_};
  if (next != changes_.begin()) {
    stretch.begin = std::prev(next)->at;
    stretch.offset = std::prev(next)->offset;
  }
  if (next != changes_.end()) {
    stretch.end = next->at;
    return stretch;
  }
  if (!later_) return stretch;
  stretch.offset = later_->standard;
  // Rules may lead a week out of their year.
  const year about = year_month_day(floor<days>(instant)).year();
  for (const auto& change : later_->changes(about - years(2), about + years(2))) {
    if (change.at > instant) {
      stretch.end = std::min(stretch.end, change.at);
      break;
    }
    stretch.begin = std::max(stretch.begin, change.at);
    stretch.offset = change.offset;
  }
  return stretch;
}

}  // namespace pons::schedule
