#include "journal_record.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "crc32c.h"
#include "pons/base/check.h"

namespace pons::budget {

namespace {

static_assert(std::endian::native == std::endian::little, "records are written as memory has them");

constexpr std::size_t kFrameBytes = 8;  // length and checksum
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kNotSaid = -1;

class Encoder {
 public:
  explicit Encoder(std::string& out) : out_(out) {}
  void number(std::int64_t value) { raw(&value, sizeof value); }
  void byte(std::size_t value) { out_ += static_cast<char>(value); }
  void text(std::string_view value) {
    const auto size = static_cast<std::uint16_t>(value.size());
    raw(&size, sizeof size);
    out_ += value;
  }
  void usage(const models::Usage& value) {
    for (const std::int64_t count :
         {value.input, value.cache_read, value.cache_write, value.cache_write_hour, value.output,
          value.reasoning.value_or(kNotSaid)})
      number(count);
  }

 private:
  void raw(const void* data, std::size_t size) {
    out_.append(static_cast<const char*>(data), size);
  }
  std::string& out_;
};

// Everything reads as nothing once something did not fit.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : bytes_(bytes) {}
  std::int64_t number() {
    std::int64_t value = 0;
    raw(&value, sizeof value);
    return value;
  }
  std::int64_t count() {
    const std::int64_t value = number();
    good_ = good_ && value >= 0;
    return value;
  }
  std::size_t byte() {
    unsigned char value = 0;
    raw(&value, sizeof value);
    return value;
  }
  std::string text(std::size_t bytes_max = kTextMax) {
    std::uint16_t size = 0;
    raw(&size, sizeof size);
    if (!good_ || size > bytes_.size() || !is_record_text(bytes_.substr(0, size), bytes_max)) {
      good_ = false;
      return {};
    }
    std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
  }
  models::Usage usage() {
    models::Usage value{.input = count(),
                        .cache_read = count(),
                        .cache_write = count(),
                        .cache_write_hour = count(),
                        .output = count()};
    const std::int64_t reasoning = number();
    good_ = good_ && reasoning >= kNotSaid;
    if (reasoning != kNotSaid) value.reasoning = reasoning;
    return value;
  }
  void refuse() { good_ = false; }
  bool finished() const { return good_ && bytes_.empty(); }

 private:
  void raw(void* out, std::size_t size) {
    if (!good_ || size > bytes_.size()) {
      good_ = false;
      return;
    }
    std::memcpy(out, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }
  std::string_view bytes_;
  bool good_ = true;
};

void encode(Encoder& to, const FileBegins& record) {
  to.number(kVersion);
  to.number(record.number);
}
void encode(Encoder& to, const Reserved& record) {
  to.text(record.id);
  to.text(record.project_id);
  to.text(record.path);
  to.text(record.model);
  to.text(record.provider);
  to.usage(record.estimate);
  to.number(record.input_nano);
  to.number(record.time_ms);
}
void encode(Encoder& to, const Progress& record) {
  to.text(record.id);
  to.usage(record.usage);
  to.number(record.cost_nano);
}
void encode(Encoder& to, const Settled& record) {
  to.text(record.id);
  to.usage(record.usage);
  to.number(record.sandbox_seconds);
  to.number(record.requests);
  to.number(record.cost_nano);
  to.byte(static_cast<std::size_t>(record.outcome));
  to.number(record.time_ms);
}
void encode(Encoder& to, const Released& record) {
  to.text(record.id);
}

FileBegins decode_begins(Decoder& from) {
  if (from.number() != kVersion) from.refuse();
  return {.number = from.count()};
}
Reserved decode_reserved(Decoder& from) {
  return {.id = from.text(),
          .project_id = from.text(),
          .path = from.text(kPathMax),
          .model = from.text(),
          .provider = from.text(),
          .estimate = from.usage(),
          .input_nano = from.count(),
          .time_ms = from.count()};
}
Progress decode_progress(Decoder& from) {
  return {.id = from.text(), .usage = from.usage(), .cost_nano = from.count()};
}
Settled decode_settled(Decoder& from) {
  Settled record{.id = from.text(),
                 .usage = from.usage(),
                 .sandbox_seconds = from.count(),
                 .requests = from.count(),
                 .cost_nano = from.count()};
  const std::size_t outcome = from.byte();
  if (outcome >= kOutcomes) from.refuse();
  record.outcome = static_cast<Outcome>(outcome);
  record.time_ms = from.count();
  return record;
}

Record decode_kind(Decoder& from) {
  switch (from.byte()) {
    case 0:
      return decode_begins(from);
    case 1:
      return decode_reserved(from);
    case 2:
      return decode_progress(from);
    case 3:
      return decode_settled(from);
    case 4:
      return Released{.id = from.text()};
    default:
      from.refuse();
      return Released{};
  }
}

struct Framed {
  Record record;
  std::size_t bytes;
};

// The whole record that stands at the beginning, if there is one.
std::optional<Framed> read_one(std::string_view bytes) {
  if (bytes.size() < kFrameBytes) return std::nullopt;
  std::uint32_t length = 0;
  std::uint32_t checksum = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::memcpy(&checksum, bytes.data() + sizeof length, sizeof checksum);
  if (length == 0 || length > kRecordBytesMax || length > bytes.size() - kFrameBytes)
    return std::nullopt;
  const std::string_view payload = bytes.substr(kFrameBytes, length);
  if (static_cast<unsigned char>(payload.front()) >= std::variant_size_v<Record> ||
      crc32c(payload) != checksum)
    return std::nullopt;
  Decoder decoder(payload);
  Record record = decode_kind(decoder);
  if (!decoder.finished()) return std::nullopt;
  return Framed{.record = std::move(record), .bytes = kFrameBytes + length};
}

}  // namespace

bool is_record_text(std::string_view text, std::size_t bytes_max) {
  return text.size() <= bytes_max && std::ranges::none_of(text, [](char c) {
           return static_cast<unsigned char>(c) < ' ' || c == 0x7F;
         });
}

void append_record(std::string& out, const Record& record) {
  const std::size_t begin = out.size();
  out.append(kFrameBytes, '\0');
  Encoder encoder(out);
  encoder.byte(record.index());
  std::visit([&](const auto& one) { encode(encoder, one); }, record);
  const std::string_view payload = std::string_view(out).substr(begin + kFrameBytes);
  CHECK(payload.size() <= kRecordBytesMax);
  const auto length = static_cast<std::uint32_t>(payload.size());
  const std::uint32_t checksum = crc32c(payload);
  std::memcpy(out.data() + begin, &length, sizeof length);
  std::memcpy(out.data() + begin + sizeof length, &checksum, sizeof checksum);
}

Records read_records(std::string_view bytes) {
  Records read;
  while (auto one = read_one(bytes.substr(read.bytes))) {
    read.records.push_back(std::move(one->record));
    read.bytes += one->bytes;
  }
  for (std::size_t behind = read.bytes + 1; behind < bytes.size() && !read.whole_again; ++behind)
    if (read_one(bytes.substr(behind))) read.whole_again = behind;
  return read;
}

}  // namespace pons::budget
