#include "pons/names/dns_message.h"

#include <gtest/gtest.h>

namespace pons::names {
namespace {

using std::string_literals::operator""s;

HostName name(std::string_view text) {
  return HostName::parse(text).value();
}

const std::string kHeader = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"s;
const std::string kQuestion = "\7eXample\3com\0\0\1\0\1"s;

DnsCode problem_of(const std::string& bytes) {
  const auto query = parse_dns_query(bytes);
  EXPECT_TRUE(query);
  return query ? query->problem : DnsCode::kServerFailure;
}

TEST(DnsQueryTest, AQueryIsReadAndItsCaseIsKeptForTheReply) {
  const auto query = parse_dns_query(kHeader + kQuestion).value();
  EXPECT_EQ(query.id, 0x1234);
  EXPECT_EQ(query.problem, DnsCode::kNoError);
  EXPECT_TRUE(query.recursion_desired);
  EXPECT_FALSE(query.has_edns);
  EXPECT_EQ(query.question, (DnsQuestion{.name = "example.com", .type = 1, .question_class = 1}));
  EXPECT_EQ(query.question_bytes, kQuestion);
}

TEST(DnsQueryTest, WhatWeWriteWeRead) {
  const auto query = parse_dns_query(write_dns_query(7, name("a.example.com"), kDnsAaaa)).value();
  EXPECT_EQ(query.problem, DnsCode::kNoError);
  EXPECT_TRUE(query.has_edns);
  EXPECT_EQ(query.question.name, "a.example.com");
  const DnsAnswer answer{.type = kDnsAaaa, .ttl_seconds = 30, .data = std::string(16, '\1')};
  const auto response =
      parse_dns_response(write_dns_reply(query, DnsCode::kNoError, {&answer, 1})).value();
  EXPECT_EQ(response.id, 7);
  EXPECT_EQ(response.question, query.question);
  ASSERT_EQ(response.answers.size(), 1U);
  EXPECT_EQ(response.answers[0].name, "a.example.com");
  EXPECT_EQ(response.answers[0].ttl_seconds, 30U);
  EXPECT_EQ(response.answers[0].data, answer.data);
}

TEST(DnsQueryTest, AnswersAndFragmentsAreNotAnswered) {
  EXPECT_FALSE(parse_dns_query(""));
  EXPECT_FALSE(parse_dns_query(kHeader.substr(0, 11)));
  EXPECT_FALSE(parse_dns_query("\x12\x34\x81\x80\x00\x01\x00\x00\x00\x00\x00\x00"s + kQuestion));
}

TEST(DnsQueryTest, EveryCutAndEveryAdditionIsAFormatError) {
  const std::string whole = write_dns_query(7, name("example.com"), kDnsA);
  for (std::size_t size = kHeader.size(); size < whole.size(); ++size)
    EXPECT_EQ(problem_of(whole.substr(0, size)), DnsCode::kFormatError) << size;
  EXPECT_EQ(problem_of(whole + '\0'), DnsCode::kFormatError);
}

TEST(DnsQueryTest, StrangeQueriesAreRefused) {
  const auto with_counts = [](const std::string& counts) {
    return problem_of("\x12\x34\x01\x00"s + counts + kQuestion);
  };
  EXPECT_EQ(with_counts("\0\0\0\0\0\0\0\0"s), DnsCode::kFormatError);
  EXPECT_EQ(with_counts("\0\2\0\0\0\0\0\0"s), DnsCode::kFormatError);
  EXPECT_EQ(with_counts("\0\1\0\1\0\0\0\0"s), DnsCode::kFormatError);
  EXPECT_EQ(with_counts("\0\1\0\0\0\1\0\0"s), DnsCode::kFormatError);
  EXPECT_EQ(with_counts("\0\1\0\0\0\0\xff\xff"s), DnsCode::kFormatError);
  EXPECT_EQ(problem_of("\x12\x34\x28\x00\x00\x01\x00\x00\x00\x00\x00\x00"s + kQuestion),
            DnsCode::kNotImplemented);
  EXPECT_EQ(problem_of(kHeader + "\xc0\x0c\0\1\0\1"s), DnsCode::kFormatError);  // points to itself
  EXPECT_EQ(problem_of(kHeader + "\x40" + std::string(64, 'a') + "\0\0\1\0\1"s),
            DnsCode::kFormatError);
  std::string long_name;
  for (int i = 0; i < 5; ++i) long_name += "\x3f" + std::string(63, 'a');
  EXPECT_EQ(problem_of(kHeader + long_name + "\0\0\1\0\1"s), DnsCode::kFormatError);
}

TEST(DnsQueryTest, ADotInsideALabelIsNotALabelBorder) {
  const auto query = parse_dns_query(kHeader +
                                     "\x0b"
                                     "api.example\3com\0\0\1\0\1"s)
                         .value();
  EXPECT_EQ(query.question.name, "api\\046example.com");
  EXPECT_FALSE(HostName::parse(query.question.name));
  const auto with_nul = parse_dns_query(kHeader + "\6evil\0a\3com\0\0\1\0\1"s).value();
  EXPECT_FALSE(HostName::parse(with_nul.question.name));
}

TEST(DnsResponseTest, PointersThatLoopOrLeadForwardAreRefused) {
  const std::string header = "\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"s;
  const std::string data = "\0\1\0\1\0\0\0\1\0\4\1\2\3\4"s;
  EXPECT_TRUE(parse_dns_response(header + kQuestion + "\xc0\x0c"s + data));
  for (const std::string& pointer :
       {"\xc0\x1d"s, "\xc0\x30"s, "\xff\xff"s, "\xc0\x00"s, "\xc0"s, "\1a\xc0\x1d"s, "\x80"s})
    EXPECT_FALSE(parse_dns_response(header + kQuestion + pointer + data)) << pointer;
}

TEST(DnsResponseTest, ACnameTargetMustFillItsRecord) {
  const std::string header = "\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"s;
  const auto parse = [&](const std::string& data) {
    return parse_dns_response(header + kQuestion + "\xc0\x0c\0\5\0\1\0\0\0\1"s + data);
  };
  EXPECT_EQ(parse("\0\6\3cdn\xc0\x0c"s).value().answers[0].data, "cdn.example.com");
  EXPECT_FALSE(parse("\0\7\3cdn\xc0\x0cX"s));
  EXPECT_FALSE(parse("\0\5\3cdn\xc0\x0c"s));
  EXPECT_FALSE(parse("\0\x40\3cdn\xc0\x0c"s));
}

TEST(DnsResponseTest, AQueryIsNoResponse) {
  EXPECT_FALSE(parse_dns_response(kHeader + kQuestion));
  EXPECT_FALSE(parse_dns_response("\x12\x34\x81\x80\x00\x00\x00\x00\x00\x00\x00\x00"s));
}

TEST(DnsFrameTest, TheSizeStandsInFront) {
  EXPECT_EQ(frame_for_tcp("abc"), "\0\3abc"s);
}

}  // namespace
}  // namespace pons::names
