#include "pons/names/dns_message.h"

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "wire_reader.h"

namespace pons::names {
namespace {

constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kNameBytesMax = 255;  // on the wire, with lengths and the root
constexpr std::size_t kPointersMax = 32;
constexpr std::size_t kRecordsMax = 128;
constexpr std::uint16_t kOpt = 41;

constexpr std::uint16_t kIsResponse = 0x8000;
constexpr std::uint16_t kTruncated = 0x0200;
constexpr std::uint16_t kRecursionDesired = 0x0100;
constexpr std::uint16_t kRecursionAvailable = 0x0080;

enum class Compression : std::uint8_t { kRefused, kFollowed };

Error refuse(const char* why) {
  return make_error(ErrorCode::kInvalid, "read DNS message", why);
}

void append_label(std::string_view label, std::string& name) {
  if (!name.empty()) name += '.';
  for (const char c : label) {
    if (c <= 0x20 || c >= 0x7F || c == '.' || c == '\\')
      name += fmt::format("\\{:03}", static_cast<unsigned char>(c));
    else
      name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
}

// Pointers go strictly backwards, so that following them ends.
Result<std::string> read_name(std::string_view message, WireReader& reader,
                              Compression compression) {
  std::string name;
  std::size_t wire_bytes = 1;
  std::size_t lowest = reader.offset();
  std::size_t after_first_pointer = 0;
  std::size_t pointers = 0;
  for (;;) {
    const std::uint8_t size = reader.u8();
    if (reader.failed()) return refuse("a name is cut short");
    if (size == 0) break;
    if (size >= 0xC0) {
      const std::size_t target = static_cast<std::size_t>(size & 0x3F) << 8 | reader.u8();
      if (compression == Compression::kRefused || reader.failed() || target < kHeaderBytes ||
          target >= lowest || ++pointers > kPointersMax)
        return refuse("a pointer in a name leads nowhere");
      if (after_first_pointer == 0) after_first_pointer = reader.offset();
      lowest = target;
      reader.move_to(target);
      continue;
    }
    if (size > 63) return refuse("a label of an unknown kind");
    wire_bytes += size + 1U;
    const std::string_view label = reader.take(size);
    if (reader.failed() || wire_bytes > kNameBytesMax) return refuse("a name is too long");
    append_label(label, name);
  }
  if (after_first_pointer != 0) reader.move_to(after_first_pointer);
  CHECK(reader.offset() <= message.size());
  return name;
}

Result<DnsQuestion> read_question(std::string_view message, WireReader& reader) {
  DnsQuestion question{.name = TRY(read_name(message, reader, Compression::kRefused))};
  question.type = reader.u16();
  question.question_class = reader.u16();
  if (reader.failed()) return refuse("the question is cut short");
  return question;
}

// The OPT record of EDNS; its options do not matter here.
Result<void> read_opt(WireReader& reader) {
  const std::uint8_t root = reader.u8();
  const std::uint16_t type = reader.u16();
  reader.u16();  // how much the client takes: our answers are smaller than what everyone takes
  const std::uint32_t flags = reader.u32();
  reader.take(reader.u16());
  if (reader.failed() || root != 0 || type != kOpt) return refuse("a record that is not OPT");
  if ((flags >> 16 & 0xFF) != 0) return refuse("an EDNS version that does not exist");
  return {};
}

struct Counts {
  std::uint16_t questions, answers, authorities, additionals;
};

Counts read_counts(WireReader& reader) {
  Counts counts{};
  counts.questions = reader.u16();
  counts.answers = reader.u16();
  counts.authorities = reader.u16();
  counts.additionals = reader.u16();
  return counts;
}

Result<void> read_query_body(std::string_view bytes, WireReader& reader, DnsQuery& query) {
  const Counts counts = read_counts(reader);
  if (counts.questions != 1 || counts.answers != 0 || counts.authorities != 0 ||
      counts.additionals > 1)
    return refuse("a query has one question and nothing else");
  query.question = TRY(read_question(bytes, reader));
  query.question_bytes = bytes.substr(kHeaderBytes, reader.offset() - kHeaderBytes);
  if (counts.additionals == 1) TRY_VOID(read_opt(reader));
  query.has_edns = counts.additionals == 1;
  if (!reader.at_end()) return refuse("bytes behind the end");
  return {};
}

void append_u16(std::string& out, std::size_t value) {
  out += static_cast<char>(value >> 8 & 0xFF);
  out += static_cast<char>(value & 0xFF);
}

void append_u32(std::string& out, std::uint32_t value) {
  append_u16(out, value >> 16);
  append_u16(out, value & 0xFFFF);
}

void append_header(std::string& out, std::uint16_t id, std::uint16_t flags, Counts counts) {
  append_u16(out, id);
  append_u16(out, flags);
  append_u16(out, counts.questions);
  append_u16(out, counts.answers);
  append_u16(out, counts.authorities);
  append_u16(out, counts.additionals);
}

void append_opt(std::string& out) {
  out += '\0';
  append_u16(out, kOpt);
  append_u16(out, kDnsUdpBytesMax);
  append_u32(out, 0);
  append_u16(out, 0);
}

Result<DnsRecord> read_record(std::string_view bytes, WireReader& reader,
                              std::uint16_t& record_class) {
  DnsRecord record{.name = TRY(read_name(bytes, reader, Compression::kFollowed))};
  record.type = reader.u16();
  record_class = reader.u16();
  record.ttl_seconds = reader.u32();
  const std::uint16_t size = reader.u16();
  const std::size_t start = reader.offset();
  record.data = reader.take(size);
  if (reader.failed()) return refuse("a record is cut short");
  if (record.type == kDnsCname) {
    WireReader target(bytes);
    target.move_to(start);
    record.data = TRY(read_name(bytes, target, Compression::kFollowed));
    if (target.offset() != start + size) return refuse("the target of a CNAME is not its data");
  }
  return record;
}

}  // namespace

Result<DnsQuery> parse_dns_query(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return refuse("shorter than a header");
  WireReader reader(bytes);
  DnsQuery query{.id = reader.u16()};
  const std::uint16_t flags = reader.u16();
  if ((flags & kIsResponse) != 0) return refuse("an answer, not a query");
  query.opcode = static_cast<std::uint8_t>(flags >> 11 & 0xF);
  query.recursion_desired = (flags & kRecursionDesired) != 0;
  if (query.opcode != 0) {
    query.problem = DnsCode::kNotImplemented;
  } else if (!read_query_body(bytes, reader, query)) {
    query.problem = DnsCode::kFormatError;
    query.question_bytes.clear();
    query.has_edns = false;
  }
  return query;
}

std::string write_dns_query(std::uint16_t id, const HostName& name, std::uint16_t type) {
  std::string message;
  append_header(message, id, kRecursionDesired, {.questions = 1, .additionals = 1});
  message += encode_dns_name(name);
  append_u16(message, type);
  append_u16(message, kDnsInternet);
  append_opt(message);
  return message;
}

std::string write_dns_reply(const DnsQuery& query, DnsCode code,
                            std::span<const DnsAnswer> answers) {
  const auto flags = static_cast<std::uint16_t>(
      kIsResponse | kRecursionAvailable | query.opcode << 11 |
      (query.recursion_desired ? kRecursionDesired : 0) | static_cast<std::uint16_t>(code));
  const bool has_question = !query.question_bytes.empty();
  CHECK(has_question || answers.empty());
  std::string message;
  append_header(message, query.id, flags,
                {.questions = static_cast<std::uint16_t>(has_question),
                 .answers = static_cast<std::uint16_t>(answers.size()),
                 .additionals = static_cast<std::uint16_t>(query.has_edns)});
  message += query.question_bytes;
  for (const DnsAnswer& answer : answers) {
    append_u16(message, 0xC000 | kHeaderBytes);  // the name of the question
    append_u16(message, answer.type);
    append_u16(message, kDnsInternet);
    append_u32(message, answer.ttl_seconds);
    append_u16(message, answer.data.size());
    message += answer.data;
  }
  if (query.has_edns) append_opt(message);
  return message;
}

std::string encode_dns_name(const HostName& name) {
  std::string wire;
  for (const std::string_view label : split(name.text(), '.')) {
    wire += static_cast<char>(label.size());
    wire += label;
  }
  wire += '\0';
  return wire;
}

std::string frame_for_tcp(std::string_view message) {
  CHECK(message.size() <= kDnsMessageBytesMax);
  std::string framed;
  append_u16(framed, message.size());
  framed += message;
  return framed;
}

Result<DnsResponse> parse_dns_response(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return refuse("shorter than a header");
  WireReader reader(bytes);
  DnsResponse response{.id = reader.u16()};
  const std::uint16_t flags = reader.u16();
  if ((flags & kIsResponse) == 0) return refuse("a query, not an answer");
  response.truncated = (flags & kTruncated) != 0;
  response.code = static_cast<DnsCode>(flags & 0xF);
  const Counts counts = read_counts(reader);
  if (counts.questions != 1) return refuse("an answer repeats its one question");
  if (counts.answers > kRecordsMax) return refuse("more answers than any name has");
  response.question = TRY(read_question(bytes, reader));
  if (response.truncated) return response;  // what is left of the records says nothing
  for (std::uint16_t i = 0; i < counts.answers; ++i) {
    std::uint16_t record_class = 0;
    DnsRecord record = TRY(read_record(bytes, reader, record_class));
    if (record_class == kDnsInternet) response.answers.push_back(std::move(record));
  }
  return response;
}

}  // namespace pons::names
