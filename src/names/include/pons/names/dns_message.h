#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/names/host_name.h"

namespace pons::names {

// Types and classes stay numbers on the way in: anything may be asked for.
inline constexpr std::uint16_t kDnsA = 1;
inline constexpr std::uint16_t kDnsCname = 5;
inline constexpr std::uint16_t kDnsPtr = 12;
inline constexpr std::uint16_t kDnsHinfo = 13;
inline constexpr std::uint16_t kDnsAaaa = 28;
inline constexpr std::uint16_t kDnsAny = 255;
inline constexpr std::uint16_t kDnsInternet = 1;

inline constexpr std::size_t kDnsUdpBytesMax = 1232;  // what passes every path unfragmented
inline constexpr std::size_t kDnsMessageBytesMax = 65'535;

enum class DnsCode : std::uint8_t {
  kNoError = 0,
  kFormatError = 1,
  kServerFailure = 2,
  kNoSuchName = 3,
  kNotImplemented = 4,
  kRefused = 5,
};

struct DnsQuestion {
  // Lower case, dots between labels, no dot at the end; bytes that are not visible ASCII, dots and
  // backslashes inside a label are written \DDD, so that different names have different texts.
  std::string name;
  std::uint16_t type = 0;
  std::uint16_t question_class = 0;
  bool operator==(const DnsQuestion&) const = default;
};

struct DnsQuery {
  std::uint16_t id = 0;
  std::uint8_t opcode = 0;
  bool recursion_desired = false;
  bool has_edns = false;
  DnsCode problem =
      DnsCode::kNoError;  // otherwise the query gets this answer and nothing below counts
  DnsQuestion question;
  std::string question_bytes;  // as they came: the reply repeats them, with their case
};

// Strict: one question, no compression, at most an OPT record behind it, and no byte more. An error
// means that it must not be answered at all: too short for a header, or itself an answer.
Result<DnsQuery> parse_dns_query(std::string_view bytes);
std::string write_dns_query(std::uint16_t id, const HostName& name, std::uint16_t type);

// An answer for the name of the question.
struct DnsAnswer {
  std::uint16_t type = kDnsA;
  std::uint32_t ttl_seconds = 0;
  std::string data;
};

std::string write_dns_reply(const DnsQuery& query, DnsCode code,
                            std::span<const DnsAnswer> answers = {});
std::string encode_dns_name(const HostName& name);
// As it travels over TCP: behind its size in two bytes.
std::string frame_for_tcp(std::string_view message);

struct DnsRecord {
  std::string name;  // as in DnsQuestion
  std::uint16_t type = 0;
  std::uint32_t ttl_seconds = 0;
  std::string data;  // of CNAME: the target as text; of all others: as it came
};

struct DnsResponse {
  std::uint16_t id = 0;
  DnsCode code = DnsCode::kNoError;
  bool truncated = false;
  DnsQuestion question;
  std::vector<DnsRecord> answers;  // of class Internet
};

// What an upstream server sent. Only the answer section is read.
Result<DnsResponse> parse_dns_response(std::string_view bytes);

}  // namespace pons::names
