#include "pons/egress/dns_responder.h"

#include <algorithm>

#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::egress {
namespace {

// Short, because a policy may change; a name keeps its address far longer.
constexpr std::uint32_t kTtlSeconds = 30;
constexpr std::size_t kPlainUdpBytesMax = 512;
constexpr std::string_view kReverseV4 = "in-addr.arpa";
constexpr std::string_view kReverseV6 = "ip6.arpa";

names::DnsAnswer address_answer(const names::IpAddress& address) {
  const auto bytes = address.bytes();
  return {.type = address.is_v4() ? names::kDnsA : names::kDnsAaaa,
          .ttl_seconds = kTtlSeconds,
          .data = std::string(bytes.begin(), bytes.end())};
}

names::DnsAnswer name_answer(const names::HostName& name) {
  return {.type = names::kDnsPtr, .ttl_seconds = kTtlSeconds, .data = names::encode_dns_name(name)};
}

// RFC 8482: what to say to ANY.
names::DnsAnswer nothing_in_particular() {
  return {
      .type = names::kDnsHinfo, .ttl_seconds = kTtlSeconds, .data = std::string("\7RFC8482\0", 9)};
}

// "4.3.2.1.in-addr.arpa", or 32 nibbles below ip6.arpa.
std::optional<names::IpAddress> read_reverse_name(const names::HostName& name) {
  auto labels = split(name.text(), '.');
  std::ranges::reverse(labels);
  labels.erase(labels.begin(), labels.begin() + 2);
  std::string text;
  if (name.is_below(kReverseV4)) {
    for (const std::string_view label : labels) text.append(text.empty() ? "" : ".").append(label);
    return names::IpAddress::parse(text);
  }
  if (labels.size() != 32) return std::nullopt;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].size() != 1) return std::nullopt;
    text.append(i > 0 && i % 4 == 0 ? ":" : "").append(labels[i]);
  }
  return names::IpAddress::parse(text);
}

class Answering {
 public:
  Answering(const names::DnsQuery& query, DnsOutcome& outcome) : query_(query), outcome_(outcome) {}

  void fail(names::DnsCode code) {
    outcome_.code = code;
    outcome_.reply = names::write_dns_reply(query_, code);
  }
  void give(const names::DnsAnswer& answer) {
    outcome_.reply = names::write_dns_reply(query_, names::DnsCode::kNoError, {&answer, 1});
  }
  void give_nothing() { outcome_.reply = names::write_dns_reply(query_, names::DnsCode::kNoError); }

  // What a name with these addresses has to say to the question.
  void give_addresses(const names::IpAddress& v4, const names::IpAddress& v6) {
    if (query_.question.type == names::kDnsA)
      give(address_answer(v4));
    else if (query_.question.type == names::kDnsAaaa)
      give(address_answer(v6));
    else if (query_.question.type == names::kDnsAny)
      give(nothing_in_particular());
    else
      give_nothing();
  }

 private:
  const names::DnsQuery& query_;
  DnsOutcome& outcome_;
};

void answer_reverse(const names::HostName& name, const names::DnsQuery& query,
                    const SyntheticAddresses& addresses, Answering& answering) {
  const auto address = read_reverse_name(name);
  std::optional<names::HostName> owner;
  if (address && names::classify(*address) == names::AddressClass::kLoopback)
    owner = *names::HostName::parse("localhost");
  else if (address)
    owner = addresses.find(*address);
  if (!owner) return answering.fail(names::DnsCode::kNoSuchName);
  if (query.question.type != names::kDnsPtr) return answering.give_nothing();
  answering.give(name_answer(*owner));
}

void answer_allowed(const names::HostName& name, const names::DnsQuery& query,
                    SyntheticAddresses& addresses, TimePoint now, DnsOutcome& outcome) {
  Answering answering(query, outcome);
  const bool wants_address =
      query.question.type == names::kDnsA || query.question.type == names::kDnsAaaa;
  if (!wants_address) return answering.give_addresses({}, {});
  const auto assigned = addresses.assign(name, outcome.decision.breadth, now);
  if (!assigned) {
    outcome.decision.reason = Reason::kTooManyNames;
    return answering.fail(names::DnsCode::kRefused);
  }
  answering.give_addresses(assigned->v4, assigned->v6);
}

}  // namespace

DnsOutcome answer_dns(std::string_view bytes, const Policy& policy, SyntheticAddresses& addresses,
                      TimePoint now) {
  DnsOutcome outcome;
  const auto query = names::parse_dns_query(bytes);
  if (!query) return outcome;
  Answering answering(*query, outcome);
  if (query->problem != names::DnsCode::kNoError) {
    answering.fail(query->problem);
    return outcome;
  }
  if (query->question.question_class != names::kDnsInternet) {
    answering.fail(names::DnsCode::kRefused);
    return outcome;
  }
  const auto name = names::HostName::parse(query->question.name);
  if (!name) {
    answering.fail(names::DnsCode::kNoSuchName);
  } else if (name->text() == "localhost" || name->is_below("localhost")) {
    answering.give_addresses(*names::IpAddress::parse("127.0.0.1"),
                             *names::IpAddress::parse("::1"));
  } else if (name->is_below(kReverseV4) || name->is_below(kReverseV6)) {
    answer_reverse(*name, *query, addresses, answering);
  } else {
    outcome.name = *name;
    outcome.decision = policy.judge_name(*name);
    if (outcome.decision.allowed())
      answer_allowed(*name, *query, addresses, now, outcome);
    else
      answering.fail(names::DnsCode::kNoSuchName);
  }
  CHECK(outcome.reply.size() <= kPlainUdpBytesMax);
  return outcome;
}

}  // namespace pons::egress
