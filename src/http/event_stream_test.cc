#include "pons/http/event_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pons::http {
namespace {

using std::chrono::milliseconds;
using std::string_literals::operator""s;
using testing::ElementsAre;
using testing::IsEmpty;

using Events = std::vector<std::string>;

std::string describe(const ServerEvent& event) {
  return event.id + "|" + event.event + "|" + event.data;
}

// The events of a stream that arrives in pieces of `piece` bytes.
Events parse(EventStreamParser& parser, std::string_view stream, std::size_t piece) {
  Events events;
  for (std::size_t at = 0; at < stream.size(); at += piece)
    EXPECT_TRUE(parser.feed(stream.substr(at, piece),
                            [&](const ServerEvent& event) { events.push_back(describe(event)); }));
  return events;
}

// The events of a stream, which are the same at every cut.
Events parse(std::string_view stream) {
  EventStreamParser whole;
  const Events events = parse(whole, stream, stream.size());
  for (const std::size_t piece : {1uz, 2uz, 3uz, 5uz}) {
    EventStreamParser parser;
    EXPECT_EQ(parse(parser, stream, piece), events) << "cut at " << piece;
  }
  return events;
}

std::string wire(const ServerEvent& event) {
  std::string out;
  EXPECT_TRUE(append_server_event(out, event));
  return out;
}

// The examples of WHATWG HTML, sections 9.2.1 and 9.2.6.
TEST(EventStream, ReadsTheExamplesOfTheStandard) {
  EXPECT_THAT(parse("data: This is the first message.\n\n"
                    "data: This is the second message, it\ndata: has two lines.\n\n"
                    "data: This is the third message.\n\n"),
              ElementsAre("||This is the first message.",
                          "||This is the second message, it\nhas two lines.",
                          "||This is the third message."));
  EXPECT_THAT(parse("event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n"
                    "event: add\ndata: 113411\n\n"),
              ElementsAre("|add|73857293", "|remove|2153", "|add|113411"));
  EXPECT_THAT(parse("data: YHOO\ndata: +2\ndata: 10\n\n"), ElementsAre("||YHOO\n+2\n10"));
  EXPECT_THAT(parse(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n"
                    "data:  third event\n\n"),
              ElementsAre("1||first event", "||second event", "|| third event"));
  EXPECT_THAT(parse("data\n\ndata\ndata\n\ndata:"), ElementsAre("||", "||\n"));
  EXPECT_THAT(parse("data:test\n\ndata: test\n\n"), ElementsAre("||test", "||test"));
}

TEST(EventStream, AllLineEndsAreOneLineEndEvenWhenCut) {
  EXPECT_THAT(parse("data: a\r\n\r\ndata: b\r\rdata: c\n\ndata: d\r\ndata: e\rdata: f\n\r\n"),
              ElementsAre("||a", "||b", "||c", "||d\ne\nf"));
  EventStreamParser parser;
  EXPECT_THAT(parse(parser, "data: a\r\n\r", 99), ElementsAre("||a"));  // without waiting for LF
  EXPECT_THAT(parse(parser, "\ndata: b\n\n", 99), ElementsAre("||b"));
}

TEST(EventStream, AByteOrderMarkCountsOnlyAtTheStart) {
  EXPECT_THAT(parse("\xEF\xBB\xBF"
                    "data: a\n\n"),
              ElementsAre("||a"));
  EXPECT_THAT(parse("data: a\n\n\xEF\xBB\xBF"
                    "data: b\n\n"),
              ElementsAre("||a"));
  EXPECT_THAT(parse("\xEF\xBB"
                    "data: a\n\n"),
              IsEmpty());
}

TEST(EventStream, CommentsUnknownFieldsAndEventsWithoutDataReachNoOne) {
  EXPECT_THAT(parse(kEventStreamKeepAlive), IsEmpty());
  EXPECT_THAT(parse(":data: x\nDATA: x\n data: x\ndata : x\n\nevent: lonely\n\ndata: y\n\n"),
              ElementsAre("||y"));
  EXPECT_THAT(parse("data: never ended\n"), IsEmpty());
}

TEST(EventStream, TheIdLastsUntilAnotherAndCountsOnceItsEventIsComplete) {
  EventStreamParser parser;
  EXPECT_THAT(parse(parser, "id: 7\ndata: a\n\ndata: b\n\nid: 8\ndata: c\n", 4),
              ElementsAre("7||a", "7||b"));
  EXPECT_EQ(parser.last_event_id(), "7");
  EXPECT_THAT(parse(parser, "\n", 4), ElementsAre("8||c"));
  EXPECT_EQ(parser.last_event_id(), "8");
  EXPECT_THAT(parse(parser, "id: 9\n\n", 4), IsEmpty());
  EXPECT_EQ(parser.last_event_id(), "9");
}

TEST(EventStream, AnIdWithNulIsIgnored) {
  EXPECT_THAT(parse("id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n"s), ElementsAre("1||a", "1||b"));
}

TEST(EventStream, RetryIsAPlainNumberWithinADay) {
  EventStreamParser parser;
  EXPECT_EQ(parser.retry(), std::nullopt);
  for (const char* bad : {"retry: -1\n", "retry: 1.5\n", "retry: \n", "retry\n", "retry: 5s\n",
                          "retry: 99999999999999999999999\n"}) {
    EXPECT_THAT(parse(parser, bad, 99), IsEmpty());
    EXPECT_EQ(parser.retry(), std::nullopt) << bad;
  }
  EXPECT_THAT(parse(parser, "retry: 1500\n", 99), IsEmpty());
  EXPECT_EQ(parser.retry(), milliseconds(1500));
  EXPECT_THAT(parse(parser, "retry: 18446744073709551615\n", 99), IsEmpty());
  EXPECT_EQ(parser.retry(), EventStreamParser::kRetryMax);
}

TEST(EventStream, AnEventOfTheLimitPassesAndOneByteMoreIsFinal) {
  const std::string line = "data: " + std::string((1 << 20) - 6, 'x');
  for (const std::size_t piece : {line.size() + 3, 1000uz}) {
    EventStreamParser parser;
    EXPECT_THAT(parse(parser, line + "\n\n", piece), ElementsAre("||" + line.substr(6)));

    std::size_t events = 0;
    const auto count = [&](const ServerEvent&) { ++events; };
    const auto over = parser.feed(line + "x\n\n", count);
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, ErrorCode::kLimit);
    EXPECT_FALSE(parser.feed("\n\ndata: small\n\n", count));
    EXPECT_EQ(events, 0u);
  }
}

TEST(EventStream, ManySmallLinesAndEndlessLinesAreBoundedToo) {
  const auto ignore = [](const ServerEvent&) {};
  for (const std::string_view piece : {"data\n", "data: 0123456789\n", "no end", ": comment "}) {
    EventStreamParser parser(1000);
    std::size_t fed = 0;
    while (fed < 10'000 && parser.feed(piece, ignore)) fed += piece.size();
    EXPECT_LT(fed, 10'000u) << piece;
  }
}

TEST(EventStream, TheTypeCountsAsPartOfTheEvent) {
  const auto ignore = [](const ServerEvent&) {};
  EXPECT_TRUE(EventStreamParser(20).feed("event: 01234\ndata: 012345678\n\n", ignore));
  EXPECT_FALSE(EventStreamParser(20).feed("event: 012345\ndata: 012345678\n\n", ignore));
}

TEST(EventStream, TheLimitIsForOneEventNotForTheStream) {
  EventStreamParser parser(20);
  std::string stream;
  for (int i = 0; i < 100; ++i) stream += ": a comment\nevent: e\ndata: x\n\n";
  EXPECT_EQ(parse(parser, stream, 7).size(), 100u);
}

TEST(EventStream, WrittenEventsAreReadBack) {
  const ServerEvent event{.id = "41", .event = "message:delta", .data = " two\n\nlines: \u20ac "};
  EXPECT_EQ(wire(event),
            "id: 41\nevent: message:delta\ndata:  two\ndata: \ndata: lines: \u20ac \n\n");
  EXPECT_THAT(parse(wire(event)), ElementsAre(describe(event)));
  EXPECT_THAT(parse(wire({.id = " 1 ", .event = "", .data = ""})), ElementsAre(" 1 ||"));
  EXPECT_EQ(wire({.data = "x"}), "data: x\n\n");
}

TEST(EventStream, DataCannotForgeAFieldWhateverLineEndItUses) {
  EXPECT_THAT(parse(wire({.data = "a\rid: 6\r\nevent: x\n\ndata: y\n"})),
              ElementsAre("||a\nid: 6\nevent: x\n\ndata: y\n"));
}

TEST(EventStream, IdsAndTypesThatWouldBreakTheLineAreRefused) {
  for (const auto& bad : {"1\ndata: forged"s, "1\r"s, "1\0"s}) {
    std::string out = "kept";
    for (const auto& event : {ServerEvent{.id = bad, .data = "x"}, {.event = bad, .data = "x"}}) {
      const auto result = append_server_event(out, event);
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    }
    EXPECT_EQ(out, "kept");
  }
}

TEST(LastEventId, IsNothingOrAPlainDecimal) {
  EXPECT_EQ(parse_last_event_id(std::nullopt).value(), std::nullopt);
  EXPECT_EQ(parse_last_event_id("0").value(), 0u);
  EXPECT_EQ(parse_last_event_id("18446744073709551615").value(), UINT64_MAX);
  for (const char* bad : {"", " 1", "-1", "+1", "0x1", "1.0", "18446744073709551616"}) {
    const auto result = parse_last_event_id(bad);
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace pons::http
