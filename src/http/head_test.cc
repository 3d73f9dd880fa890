#include "pons/http/head.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pons::http {
namespace {

using State = HeadParse::State;

// Each attempt reads from memory of exactly its size, so that the sanitizer sees a read too far,
// and every head is read twice: at once, and a byte at a time. Both must say the same.
template <class Message, class Parse>
HeadParse read_both_ways(const std::string& bytes, Message& out, std::vector<char>& memory,
                         Parse parse) {
  memory.assign(bytes.begin(), bytes.end());
  std::size_t scanned = 0;
  const auto at_once = parse(std::string_view(memory.data(), memory.size()), scanned, out);

  Message trickled;
  HeadParse in_pieces;
  scanned = 0;
  for (std::size_t size = 1; size <= bytes.size() && in_pieces.state == State::kNeedMore; ++size) {
    const std::vector<char> piece(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    in_pieces = parse(std::string_view(piece.data(), piece.size()), scanned, trickled);
  }
  EXPECT_EQ(in_pieces.state, at_once.state) << bytes;
  EXPECT_EQ(in_pieces.head_bytes, at_once.head_bytes) << bytes;
  EXPECT_EQ(in_pieces.status, at_once.status) << bytes;
  EXPECT_STREQ(in_pieces.reason, at_once.reason) << bytes;
  EXPECT_EQ(trickled.fields.size(), out.fields.size()) << bytes;
  EXPECT_EQ(trickled.framing, out.framing) << bytes;
  return at_once;
}

struct ReadRequest {
  explicit ReadRequest(const std::string& bytes, HeadLimits limits = {}) {
    parse = read_both_ways(bytes, head, memory, [&](auto buffer, auto& scanned, auto& out) {
      return parse_request_head(buffer, scanned, limits, out);
    });
  }
  std::vector<char> memory;
  RequestHead head;
  HeadParse parse;
};

struct ReadResponse {
  explicit ReadResponse(const std::string& bytes, std::string_view method = "GET",
                        HeadLimits limits = {}) {
    parse = read_both_ways(bytes, head, memory, [&](auto buffer, auto& scanned, auto& out) {
      return parse_response_head(buffer, scanned, limits, method, out);
    });
  }
  std::vector<char> memory;
  ResponseHead head;
  HeadParse parse;
};

#define EXPECT_DONE(read) \
  EXPECT_EQ((read).parse.state, State::kDone) << (read).parse.status << " " << (read).parse.reason
#define EXPECT_REFUSED(read, expected_status)          \
  do {                                                 \
    EXPECT_EQ((read).parse.state, State::kRefused);    \
    EXPECT_EQ((read).parse.status, (expected_status)); \
    EXPECT_STRNE((read).parse.reason, "");             \
    EXPECT_TRUE((read).head.fields.empty());           \
  } while (false)

std::string get(const std::string& fields) {
  return "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

void expect_refused(int status, const std::vector<std::string>& requests) {
  for (const auto& bytes : requests) {
    SCOPED_TRACE(bytes);
    const ReadRequest read(bytes);
    EXPECT_REFUSED(read, status);
  }
}

TEST(RequestHeadTest, ReadsATypicalRequest) {
  const std::string head =
      "POST /v1/messages?beta=true&x=? HTTP/1.1\r\nHost: api.example.com:8443\r\n"
      "Content-Type:application/json\r\nX-Empty:\r\nX-Padded: \t a\tb \t \r\n"
      "content-LENGTH: 12\r\n\r\n";
  const ReadRequest read(head + "{\"body\":true}");
  EXPECT_DONE(read);
  EXPECT_EQ(read.parse.head_bytes, head.size());
  EXPECT_EQ(read.head.method, "POST");
  EXPECT_EQ(read.head.target, "/v1/messages?beta=true&x=?");
  EXPECT_EQ(read.head.path(), "/v1/messages");
  EXPECT_EQ(read.head.query(), "beta=true&x=?");
  EXPECT_EQ(read.head.host, "api.example.com:8443");
  EXPECT_EQ(read.head.minor_version, 1);
  EXPECT_EQ(read.head.framing, BodyFraming::kLength);
  EXPECT_EQ(read.head.content_length, 12u);
  ASSERT_EQ(read.head.fields.size(), 5u);
  EXPECT_EQ(read.head.fields[1].name, "Content-Type");
  EXPECT_EQ(read.head.find("content-type"), "application/json");
  EXPECT_EQ(read.head.find("x-empty"), "");
  EXPECT_EQ(read.head.find("X-PADDED"), "a\tb");
  EXPECT_EQ(read.head.find("x-absent"), std::nullopt);
}

TEST(RequestHeadTest, AnIncompleteHeadNeedsMore) {
  const std::string whole = get("A: b\r\n");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const ReadRequest read(whole.substr(0, size));
    EXPECT_EQ(read.parse.state, State::kNeedMore) << size;
    EXPECT_TRUE(read.head.method.empty());
  }
}

TEST(RequestHeadTest, PipelinedHeadsAreReadOneByOneWithoutNewMemory) {
  const std::string first = get("A: 1\r\nB: 2\r\n");
  const std::string both = first + "DELETE /x HTTP/1.1\r\nHost: b\r\n\r\n";
  RequestHead head;
  std::size_t scanned = 0;
  auto parse = parse_request_head(both, scanned, {}, head);
  ASSERT_EQ(parse.state, State::kDone);
  ASSERT_EQ(parse.head_bytes, first.size());
  const auto* memory = head.fields.data();
  scanned = 0;
  parse = parse_request_head(std::string_view(both).substr(parse.head_bytes), scanned, {}, head);
  ASSERT_EQ(parse.state, State::kDone);
  EXPECT_EQ(head.method, "DELETE");
  EXPECT_EQ(head.fields.size(), 1u);
  EXPECT_EQ(head.fields.data(), memory);
}

TEST(RequestHeadTest, OnlyCrlfEndsALine) {
  expect_refused(400,
                 {"GET / HTTP/1.1\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\n\r\n",
                  "GET / HTTP/1.1\r\nHost: a\r\n\n", "GET / HTTP/1.1\r\nHost: a\rB: c\r\n\r\n",
                  "GET / HTTP/1.1\r\nHost: a\r\n\rX\r\n\r\n", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
                  "GET / HTTP/1.1\rHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"});
}

TEST(RequestHeadTest, OneEmptyLineBeforeTheRequestIsSkippedAndASecondRefused) {
  const ReadRequest one("\r\n" + get(""));
  EXPECT_DONE(one);
  EXPECT_EQ(one.parse.head_bytes, get("").size() + 2);
  EXPECT_EQ(one.head.method, "GET");
  expect_refused(400, {"\r\n\r\n" + get(""), "\n" + get(""), "\r" + get(""), "\r\n\n" + get("")});
}

TEST(RequestHeadTest, ABadLineIsRefusedWithoutWaitingForTheRest) {
  expect_refused(400, {"GET  / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nA : b\r\n",
                       "GET / HTTP/1.1\r\nHost: a\r\nB\r\nC", "\x16\x03\x01", " GET"});
  expect_refused(505, {"PRI * HTTP/2.0\r\n"});
}

TEST(RequestHeadTest, RequestLinePartsAreSeparatedByExactlyOneSpace) {
  expect_refused(400, {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
                       "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
                       "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
                       "GET /\r\nHost: a\r\n\r\n", "GET\r\n\r\n", " GET / HTTP/1.1\r\n\r\n"});
}

TEST(RequestHeadTest, MethodIsABoundedToken) {
  EXPECT_DONE(ReadRequest("m!#$%&'*+-.^_`|~9 / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_DONE(ReadRequest(std::string(32, 'M') + " / HTTP/1.1\r\nHost: a\r\n\r\n"));
  expect_refused(501, {std::string(33, 'M') + " / HTTP/1.1\r\nHost: a\r\n\r\n"});
  expect_refused(400, {"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", "G\xc3\xa9T / HTTP/1.1\r\n\r\n",
                       "\"GET\" / HTTP/1.1\r\n\r\n", ":GET / HTTP/1.1\r\n\r\n"});
}

TEST(RequestHeadTest, TargetHoldsVisibleAsciiOnly) {
  for (int c = 1; c < 256; ++c) {
    if (c == '\n') continue;
    const std::string bytes =
        std::string("GET /a") + static_cast<char>(c) + " HTTP/1.1\r\nHost: a\r\n\r\n";
    const ReadRequest read(bytes);
    if (c > 0x20 && c < 0x7f && c != '#') {
      EXPECT_DONE(read);
    } else {
      EXPECT_REFUSED(read, 400);
    }
  }
  expect_refused(400, {std::string("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 29)});
}

TEST(RequestHeadTest, TargetFormFitsTheMethod) {
  EXPECT_EQ(ReadRequest("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").head.path(), "*");
  EXPECT_DONE(ReadRequest("GET //b/../c HTTP/1.1\r\nHost: a\r\n\r\n"));
  expect_refused(
      400, {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", "GET a/b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://u@a/ HTTP/1.1\r\nHost: u@a\r\n\r\n",
            "OPTIONS *x HTTP/1.1\r\nHost: a\r\n\r\n", "GET ?x HTTP/1.1\r\nHost: a\r\n\r\n"});
}

TEST(RequestHeadTest, AbsoluteTargetMustAgreeWithHost) {
  const ReadRequest read("GET HTTP://A.b:80/c?d HTTP/1.1\r\nHost: a.B:80\r\n\r\n");
  EXPECT_DONE(read);
  EXPECT_EQ(read.head.path(), "/c");
  EXPECT_EQ(read.head.query(), "d");
  EXPECT_EQ(ReadRequest("GET https://a HTTP/1.1\r\nHost: a\r\n\r\n").head.path(), "/");
  EXPECT_EQ(ReadRequest("GET http://a?q HTTP/1.1\r\nHost: a\r\n\r\n").head.path(), "/");
  EXPECT_EQ(ReadRequest("GET http://a?q HTTP/1.1\r\nHost: a\r\n\r\n").head.query(), "q");
  EXPECT_EQ(ReadRequest("GET http://a:1/ HTTP/1.0\r\n\r\n").head.host, "a:1");
  expect_refused(400, {"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
                       "GET http://a/ HTTP/1.1\r\nHost: a:80\r\n\r\n",
                       "GET http://a/ HTTP/1.0\r\nHost: b\r\n\r\n"});
}

TEST(RequestHeadTest, ConnectNamesHostAndPortAndHasNoBody) {
  const ReadRequest read("CONNECT a.b:443 HTTP/1.1\r\nHost: a.b:443\r\n\r\n");
  EXPECT_DONE(read);
  EXPECT_EQ(read.head.target, "a.b:443");
  EXPECT_EQ(read.head.path(), "");
  EXPECT_DONE(ReadRequest("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]\r\n\r\n"));
  EXPECT_EQ(ReadRequest("CONNECT a:443 HTTP/1.0\r\n\r\n").head.host, "a:443");
  const ReadRequest empty("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 0\r\n\r\n");
  EXPECT_DONE(empty);
  EXPECT_EQ(empty.head.framing, BodyFraming::kNone);
  expect_refused(400,
                 {"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
                  "CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n",
                  "CONNECT a:443 HTTP/1.1\r\nHost: a:80\r\n\r\n",
                  "CONNECT http://a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
                  "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 5\r\n\r\n",
                  "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nTransfer-Encoding: chunked\r\n\r\n"});
}

TEST(RequestHeadTest, OtherVersionsAre505AndGarbageIs400) {
  expect_refused(505, {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
                       "GET / HTTP/0.9\r\nHost: a\r\n\r\n"});
  expect_refused(400, {"GET / http/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.10\r\nHost: a\r\n\r\n",
                       "GET / HTTP/11\r\nHost: a\r\n\r\n", "GET / HTTP/1.\r\nHost: a\r\n\r\n",
                       "GET / HTTPS/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/ 1.1\r\nHost: a\r\n\r\n",
                       "GET / HTTP/1,1\r\nHost: a\r\n\r\n", "GET / \r\nHost: a\r\n\r\n"});
}

TEST(RequestHeadTest, FieldNamesAreTokensWithTheColonRightBehind) {
  EXPECT_DONE(ReadRequest(get("!#$%&'*+-.^_`|~aZ09: x\r\n")));
  expect_refused(400, {get("A : b\r\n"), get("A\t: b\r\n"), get(": b\r\n"), get("A B: c\r\n"),
                       get("A\r\n"), get("A(: b\r\n"), get("\xc3\xa9: b\r\n"),
                       get(std::string("A\0: b\r\n", 7)), get("A\x7f: b\r\n")});
}

TEST(RequestHeadTest, AFieldIsNeverContinuedOnASecondLine) {
  expect_refused(400, {get("A: b\r\n c\r\n"), get("A: b\r\n\tc\r\n"), get(" A: b\r\n"),
                       "GET / HTTP/1.1\r\n Host: a\r\n\r\n", get("A: b\r\n \r\n")});
}

TEST(RequestHeadTest, TheReasonNamesWhatIsWrong) {
  const auto reason = [](const std::string& fields) {
    return std::string_view(ReadRequest(get(fields)).parse.reason);
  };
  EXPECT_EQ(reason("A: b\r\n c\r\n"), "field continued on a second line");
  EXPECT_EQ(reason("A : b\r\n"), "space between field name and colon");
  EXPECT_EQ(reason("A: b\n"), "LF without CR before it");
  EXPECT_EQ(reason("A: b\rc\r\n"), "CR without LF");
  EXPECT_EQ(reason("A: \x01\r\n"), "control character in a field value");
  EXPECT_EQ(reason("Host: b\r\n"), "more than one Host field");
}

TEST(RequestHeadTest, FieldValuesHoldNoControlCharacters) {
  for (const std::string padding : {"", "1234567", "12345678901234567"}) {
    for (int c = 0; c < 256; ++c) {
      if (c == '\r' || c == '\n') continue;
      const ReadRequest read(get("A: x" + padding + static_cast<char>(c) + padding + "y\r\n"));
      if (c == '\t' || (c >= 0x20 && c != 0x7f)) {
        EXPECT_DONE(read);
        EXPECT_EQ(read.head.find("a")->size(), 3 + 2 * padding.size());
      } else {
        EXPECT_REFUSED(read, 400);
      }
    }
  }
}

TEST(RequestHeadTest, ExactlyOneHostInHttp11) {
  expect_refused(400, {"GET / HTTP/1.1\r\n\r\n", get("Host: a\r\n"), get("hOST: b\r\n"),
                       "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"});
  const ReadRequest old("GET / HTTP/1.0\r\n\r\n");
  EXPECT_DONE(old);
  EXPECT_EQ(old.head.host, "");
}

TEST(RequestHeadTest, HostIsANameOrAddressWithAnOptionalPort) {
  const auto with_host = [](const std::string& host) {
    return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  };
  for (const std::string host : {"a", "A-b_c.example", "127.0.0.1", "127.0.0.1:0", "a:65535",
                                 "[::1]", "[2001:db8::1]:8080", "[::ffff:1.2.3.4]"}) {
    const ReadRequest read(with_host(host));
    EXPECT_DONE(read);
    EXPECT_EQ(read.head.host, host);
  }
  for (const std::string host :
       {"",    ":80",    "a:",      "a:65536", "a:-1",      "a:+1",           "a:000080", "a:8 0",
        "u@a", "u:p@a",  "a/b",     "a,b",     "a b",       "a%41",           "[::1",     "::1",
        "[]",  "[::1]x", "[::1]:",  "[g::]",   "[1.2.3.4]", "[fe80::1%25lo]", "[v1.x]",   "a:80:80",
        "a?b", "a\\b",   "\xc3\xa9"}) {
    SCOPED_TRACE(host);
    EXPECT_REFUSED(ReadRequest(with_host(host)), 400);
  }
  EXPECT_DONE(ReadRequest(with_host(std::string(255, 'a') + ":80")));
  EXPECT_REFUSED(ReadRequest(with_host(std::string(256, 'a'))), 400);
}

TEST(RequestHeadTest, ContentLengthStandsOnceAndIsPlainDigits) {
  EXPECT_EQ(ReadRequest(get("Content-Length: 0\r\n")).head.framing, BodyFraming::kLength);
  EXPECT_EQ(ReadRequest(get("Content-Length:\t9223372036854775807 \r\n")).head.content_length,
            9223372036854775807u);
  expect_refused(
      400, {get("Content-Length: 9223372036854775808\r\n"),
            get("Content-Length: 18446744073709551621\r\n"),
            get("Content-Length: 99999999999999999999999999\r\n"), get("Content-Length: +5\r\n"),
            get("Content-Length: -5\r\n"), get("Content-Length: 0x5\r\n"),
            get("Content-Length: 5, 5\r\n"), get("Content-Length: 5 5\r\n"),
            get("Content-Length: 5;\r\n"), get("Content-Length:\r\n"),
            get("Content-Length: 1_0\r\n"), get("Content-Length: 5\r\nContent-Length: 5\r\n"),
            get("Content-Length: 5\r\ncontent-length: 6\r\n")});
}

TEST(RequestHeadTest, TransferEncodingIsExactlyChunked) {
  EXPECT_EQ(ReadRequest(get("Transfer-Encoding: cHuNkEd\r\n")).head.framing, BodyFraming::kChunked);
  expect_refused(
      501, {get("Transfer-Encoding: xchunked\r\n"), get("Transfer-Encoding: gzip\r\n"),
            get("Transfer-Encoding: gzip, chunked\r\n"),
            get("Transfer-Encoding: chunked, chunked\r\n"), get("Transfer-Encoding: chunked,\r\n"),
            get("Transfer-Encoding:\r\n"), get("Transfer-Encoding: identity\r\n"),
            get("Transfer-Encoding: chunked;q=1\r\n"), get("Transfer-Encoding: \"chunked\"\r\n"),
            get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            get("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n")});
  expect_refused(400, {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
                       get("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
                       get("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"),
                       get("Content-Length: x\r\nTransfer-Encoding: gzip\r\n")});
}

TEST(RequestHeadTest, ARequestWithoutLengthHasNoBody) {
  EXPECT_EQ(ReadRequest("POST / HTTP/1.1\r\nHost: a\r\n\r\n").head.framing, BodyFraming::kNone);
  // Names that only resemble those that frame a body mean nothing.
  EXPECT_EQ(ReadRequest(get("Content_Length: 5\r\nXontent-Length: 5\r\n")).head.framing,
            BodyFraming::kNone);
}

TEST(RequestHeadTest, OnlyOneExpectationIsKnown) {
  EXPECT_TRUE(
      ReadRequest(get("Expect: 100-Continue\r\nContent-Length: 5\r\n")).head.expect_continue);
  EXPECT_FALSE(ReadRequest(get("Expect: 100-continue\r\n")).head.expect_continue);
  EXPECT_FALSE(ReadRequest("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
                   .head.expect_continue);
  expect_refused(417,
                 {get("Expect: 200-ok\r\n"), get("Expect:\r\n"), get("Expect: 100-continue, x\r\n"),
                  get("Expect: 100-continue\r\nExpect: other\r\n")});
}

TEST(RequestHeadTest, ConnectionOptionsDecideWhatComesAfter) {
  EXPECT_TRUE(ReadRequest(get("")).head.keep_alive);
  EXPECT_FALSE(ReadRequest(get("Connection: x, ,CLOSE\t, y\r\n")).head.keep_alive);
  EXPECT_FALSE(ReadRequest(get("Connection: close\r\nConnection: keep-alive\r\n")).head.keep_alive);
  EXPECT_TRUE(ReadRequest(get("Connection: closed, xclose\r\n")).head.keep_alive);
  EXPECT_FALSE(ReadRequest("GET / HTTP/1.0\r\n\r\n").head.keep_alive);
  EXPECT_TRUE(ReadRequest("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").head.keep_alive);
  EXPECT_FALSE(
      ReadRequest("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n").head.keep_alive);
  expect_refused(400, {get("Connection: close;x\r\n"), get("Connection: a b\r\n")});
}

TEST(RequestHeadTest, UpgradeNeedsBothFieldsAndHttp11) {
  EXPECT_TRUE(
      ReadRequest(get("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n")).head.upgrade);
  EXPECT_FALSE(ReadRequest(get("Connection: Upgrade\r\n")).head.upgrade);
  EXPECT_FALSE(ReadRequest(get("Upgrade: websocket\r\n")).head.upgrade);
  EXPECT_FALSE(ReadRequest("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
                   .head.upgrade);
}

TEST(RequestHeadTest, TheHeadLimitCountsTheEmptyLineAndFiresBeforeTheEndIsSeen) {
  const std::string head = get("A: " + std::string(200, 'x') + "\r\n");
  EXPECT_DONE(ReadRequest(head + "body", {.bytes = head.size()}));
  EXPECT_REFUSED(ReadRequest(head, {.bytes = head.size() - 1}), 431);
  EXPECT_REFUSED(ReadRequest(head.substr(0, 100), {.bytes = 100}), 431);
  EXPECT_EQ(ReadRequest(head.substr(0, 99), {.bytes = 100}).parse.state, State::kNeedMore);
  EXPECT_REFUSED(ReadRequest(get("A: " + std::string(20000, 'x'))), 431);
}

TEST(RequestHeadTest, FieldsAreCounted) {
  std::string fields;
  for (int i = 0; i < 99; ++i) fields += "A: b\r\n";
  const ReadRequest read(get(fields));  // and Host
  EXPECT_DONE(read);
  EXPECT_EQ(read.head.fields.size(), 100u);
  EXPECT_REFUSED(ReadRequest(get(fields + "A: b\r\n")), 431);
  // What stands behind the limit is not overlooked, either.
  EXPECT_REFUSED(ReadRequest(get(fields + "Content-Length: 5\r\n")), 431);
}

TEST(RequestHeadTest, AnOverlongTargetIs414EvenBeforeItEnds) {
  const HeadLimits limits{.target_bytes = 100};
  const auto with_target = [](std::size_t size) {
    return "GET /" + std::string(size - 1, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  EXPECT_DONE(ReadRequest(with_target(100), limits));
  EXPECT_REFUSED(ReadRequest(with_target(101), limits), 414);
  EXPECT_REFUSED(ReadRequest(with_target(1000), limits), 414);
  EXPECT_REFUSED(ReadRequest("GET /" + std::string(200, 'x'), limits), 414);
  EXPECT_REFUSED(ReadRequest("\r\nGET /" + std::string(200, 'x'), limits), 414);
  EXPECT_REFUSED(ReadRequest(with_target(9000)), 414);
  EXPECT_REFUSED(ReadRequest("GET /" + std::string(30000, 'x')), 414);
}

void expect_response_refused(const std::vector<std::string>& responses) {
  for (const auto& bytes : responses) {
    SCOPED_TRACE(bytes);
    EXPECT_REFUSED(ReadResponse(bytes), 502);
  }
}

TEST(ResponseHeadTest, ReadsStatusReasonAndFields) {
  const ReadResponse read("HTTP/1.1 404 Not  Found \xc3\xa9\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_DONE(read);
  EXPECT_EQ(read.head.status, 404);
  EXPECT_EQ(read.head.reason, "Not  Found \xc3\xa9");
  EXPECT_EQ(read.head.content_length, 3u);
  EXPECT_TRUE(read.head.keep_alive);
  EXPECT_EQ(ReadResponse("HTTP/1.1 200 \r\n\r\n").head.reason, "");
  EXPECT_EQ(ReadResponse("HTTP/1.0 599\r\n\r\n").head.status, 599);
}

TEST(ResponseHeadTest, AMalformedStatusLineIsRefused) {
  expect_response_refused(
      {"HTTP/1.1 600 x\r\n\r\n", "HTTP/1.1 099 x\r\n\r\n", "HTTP/1.1 20 x\r\n\r\n",
       "HTTP/1.1 2000 x\r\n\r\n", "HTTP/1.1 2x0 x\r\n\r\n", "HTTP/1.1  200 x\r\n\r\n",
       "HTTP/1.1 +20 x\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/2.0 200 x\r\n\r\n",
       "HTTP/1.2 200 x\r\n\r\n", "http/1.1 200 x\r\n\r\n", "ICY 200 OK\r\n\r\n",
       "HTTP/1.1 200\tx\r\n\r\n", "HTTP/1.1 200 a\x01\r\n\r\n", "HTTP/1.1 200 a\rb\r\n\r\n",
       "HTTP/1.1 200 OK\n\n", "\r\nHTTP/1.1 200 OK\r\n\r\n", "<html>"});
}

TEST(ResponseHeadTest, FieldsFollowTheSameRulesAsInRequests) {
  const auto ok = [](const std::string& fields) { return "HTTP/1.1 200 OK\r\n" + fields + "\r\n"; };
  expect_response_refused({ok("A : b\r\n"), ok("A: b\r\n c\r\n"), ok("A: \x01\r\n"), ok("A: b\n"),
                           ok("Content-Length: 5\r\nContent-Length: 5\r\n"),
                           ok("Content-Length: 5, 5\r\n"), ok("Content-Length: -1\r\n"),
                           ok("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
                           ok("Transfer-Encoding: gzip, chunked\r\n"),
                           ok("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
                           ok("Connection: a b\r\n"), ok("A: " + std::string(20000, 'x')),
                           "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"});
  EXPECT_REFUSED(ReadResponse(ok("A: b\r\nA: b\r\n"), "GET", {.fields = 1}), 502);
  EXPECT_DONE(ReadResponse(ok("Host: a b\r\nHost: c\r\nExpect: x\r\n")));  // mean nothing here
}

TEST(ResponseHeadTest, ABodyWithoutLengthLastsUntilClose) {
  const ReadResponse read("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(read.head.framing, BodyFraming::kUntilClose);
  EXPECT_FALSE(read.head.keep_alive);
  EXPECT_EQ(ReadResponse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").head.framing,
            BodyFraming::kChunked);
}

TEST(ResponseHeadTest, SomeResponsesNeverHaveABody) {
  const auto framing = [](const std::string& bytes, std::string_view method) {
    const ReadResponse read(bytes, method);
    EXPECT_DONE(read);
    return read.head.framing;
  };
  for (const std::string fields : {"", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"}) {
    const std::string rest = fields + "\r\n";
    EXPECT_EQ(framing("HTTP/1.1 200 OK\r\n" + rest, "HEAD"), BodyFraming::kNone);
    EXPECT_EQ(framing("HTTP/1.1 304 x\r\n" + rest, "GET"), BodyFraming::kNone);
    EXPECT_EQ(framing("HTTP/1.1 204 x\r\n" + rest, "GET"), BodyFraming::kNone);
    EXPECT_EQ(framing("HTTP/1.1 100 x\r\n" + rest, "POST"), BodyFraming::kNone);
    EXPECT_EQ(framing("HTTP/1.1 200 x\r\n" + rest, "CONNECT"), BodyFraming::kNone);
    EXPECT_NE(framing("HTTP/1.1 403 x\r\n" + rest, "CONNECT"), BodyFraming::kNone);
    EXPECT_NE(framing("HTTP/1.1 200 x\r\n" + rest, "head"), BodyFraming::kNone);
  }
}

TEST(ResponseHeadTest, AConnectionIsNotReusedAfterABodyThatCannotBe) {
  EXPECT_FALSE(ReadResponse("HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n").head.keep_alive);
  EXPECT_FALSE(
      ReadResponse("HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n").head.keep_alive);
  EXPECT_TRUE(ReadResponse("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n").head.keep_alive);
  EXPECT_TRUE(ReadResponse("HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n").head.keep_alive);
  EXPECT_TRUE(ReadResponse("HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\n", "HEAD").head.keep_alive);
}

TEST(ResponseHeadTest, UpgradeIsSeen) {
  const ReadResponse read("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  EXPECT_TRUE(read.head.upgrade);
  EXPECT_EQ(read.head.framing, BodyFraming::kNone);
}

TEST(FieldWriterTest, WritersCannotInjectFields) {
  EXPECT_TRUE(is_token("X-Name"));
  for (const std::string_view name : {"", "a b", "a:", "a\r\n", "a\n", "\xc3\xa9"})
    EXPECT_FALSE(is_token(name)) << name;
  EXPECT_TRUE(is_field_value(""));
  EXPECT_TRUE(is_field_value("a b\tc \xc3\xa9"));
  for (const std::string_view value : {"a\r\nB: c", "a\n", "a\r", "\x7f", "12345678\x01"})
    EXPECT_FALSE(is_field_value(value)) << value;
  EXPECT_FALSE(is_field_value(std::string_view("a\0b", 3)));
  std::string out;
  append_field(out, "A", "b");
  append_field(out, "C", "");
  EXPECT_EQ(out, "A: b\r\nC: \r\n");
  EXPECT_DEATH(append_field(out, "A", "b\r\nC: d"), "is_field_value");
  EXPECT_DEATH(append_field(out, "A:", "b"), "is_token");
}

TEST(FieldWriterTest, ReasonPhrasesAreTheRegisteredOnes) {
  EXPECT_EQ(reason_phrase(200), "OK");
  EXPECT_EQ(reason_phrase(431), "Request Header Fields Too Large");
  EXPECT_EQ(reason_phrase(299), "");
}

}  // namespace
}  // namespace pons::http
