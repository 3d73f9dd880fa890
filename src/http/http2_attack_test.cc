// Clients that write frames by hand, against the server's side.

#include <atomic>

#include <fmt/format.h>

#include "http2_fixture.h"
#include "http2_frame_tracker.h"

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines): the fixture's run() and
// handle_with() and each request keep their lambdas for as long as the coroutines run.

namespace pons::http {
namespace {

using namespace std::chrono_literals;

enum Code : int { kProtocolError = 1, kRefusedStream = 7, kCompression = 9, kCalm = 11 };

class Http2AttackTest : public Http2Test {
 protected:
  Http2AttackTest() { use({}); }
  void use(Http2Limits limits) {
    handle_with(
        [this](Exchange& exchange) {
          ++handled_;
          return echo(exchange);
        },
        limits);
  }
  // What becomes of one request: the code of a reset, or the status of an answer.
  int outcome_of(const Pairs& fields, int flags = kEndHeaders | kEndStream,
                 std::string_view more = {}) {
    FramePeer peer = dial();
    peer.greet();
    peer.send_request(1, fields, flags);
    peer.send(more);
    return outcome(peer);
  }
  static int outcome(FramePeer& peer) {
    for (;;) {
      const Frame next = peer.read_frame();
      if (next.type == kRstStream) return static_cast<int>(number_in(next.payload));
      if (next.type == kGoaway)
        return static_cast<int>(number_in(std::string_view(next.payload).substr(4, 4)));
      if (next.type == 255) return -1;
      // Our encoder writes :status as an index into the static table, or with its value as text.
      if (next.type == kHeaders) return status_in(next.payload);
    }
  }
  static int status_in(std::string_view block) {
    static constexpr int kStatuses[] = {200, 204, 206, 304, 400, 404, 500};
    while (!block.empty() && (block[0] & 0xe0) == 0x20) block.remove_prefix(1);  // table size
    const auto first = static_cast<unsigned char>(block[0]);
    if (first >= 0x88 && first <= 0x8e) return kStatuses[first - 0x88];
    return 999;  // some other one, Huffman-coded
  }
  // A field list without one name.
  static Pairs without(std::string_view name) {
    Pairs fields = request_fields();
    std::erase_if(fields, [&](const auto& field) { return field.first == name; });
    return fields;
  }
  static Pairs with(std::string_view name, std::string value) {
    Pairs fields = request_fields();
    for (auto& field : fields)
      if (field.first == name) field.second = value;
    return fields;
  }

  std::atomic<int> handled_ = 0;
};

TEST_F(Http2AttackTest, ProperRequestIsServed) {
  EXPECT_EQ(outcome_of(request_fields({{"te", "trailers"}, {"host", "A.test"}})), 200);
  EXPECT_EQ(handled_, 1);
}

TEST_F(Http2AttackTest, AmbiguousHeadsNeverReachTheHandler) {
  for (const char* name : {":method", ":scheme", ":path"})
    EXPECT_EQ(outcome_of(without(name)), kProtocolError) << name;
  EXPECT_EQ(outcome_of(without(":authority")), kProtocolError);
  Pairs host_only = without(":authority");
  host_only.emplace_back("host", "a.test");
  EXPECT_EQ(outcome_of(host_only), 400);
  for (const char* name : {":method", ":scheme", ":path", ":authority"}) {
    Pairs twice = request_fields();
    twice.insert(twice.begin(), {name, name == std::string(":path") ? "/" : "GET"});
    EXPECT_EQ(outcome_of(twice), kProtocolError) << name;
  }
  EXPECT_EQ(outcome_of({{":method", "GET"},
                        {":scheme", "http"},
                        {":authority", "a.test"},
                        {"x", "y"},
                        {":path", "/"}}),
            kProtocolError);
  EXPECT_EQ(outcome_of(request_fields({{":unknown", "x"}})), kProtocolError);
  EXPECT_EQ(outcome_of(request_fields({{":status", "200"}})), kProtocolError);
  EXPECT_EQ(outcome_of(request_fields({{":protocol", "websocket"}})), kProtocolError);
  EXPECT_EQ(outcome_of(request_fields({{"host", "b.test"}})), 400);
  EXPECT_EQ(outcome_of(request_fields({{"host", "a.test"}, {"host", "b.test"}})), kProtocolError);
  EXPECT_EQ(handled_, 0);
}

TEST_F(Http2AttackTest, IllegalBytesNeverReachTheHandler) {
  for (const std::string& name :
       std::vector<std::string>{"X-Upper", "a b", "a:b", "a\r\nb", "", std::string("a\0b", 3)})
    EXPECT_EQ(outcome_of(request_fields({{name, "x"}})), kProtocolError) << name;
  for (const std::string& value :
       std::vector<std::string>{"a\r\nb: c", "a\nb", std::string("a\0b", 3), "a\x7f", " a", "a "})
    EXPECT_EQ(outcome_of(request_fields({{"x", value}})), kProtocolError) << value;
  for (const std::string& path : std::vector<std::string>{
           "/a b", "/a\r\nHost: b", "/a#b", "/\xc3\xa4", "a", "", "http://b.test/", "*"})
    EXPECT_NE(outcome_of(with(":path", path)), 200) << path;
  for (const std::string& host : std::vector<std::string>{
           "", "a test", "user@a.test", "a.test:99999", "a.test/b", "a%2etest", "a.test\r\nx: y"})
    EXPECT_NE(outcome_of(with(":authority", host)), 200) << host;
  for (const std::string& method : std::vector<std::string>{"", "G ET", "GET\r\n", "GET /x"})
    EXPECT_NE(outcome_of(with(":method", method)), 200) << method;
  EXPECT_EQ(handled_, 0);
}

TEST_F(Http2AttackTest, FieldsOfAnotherVersionNeverReachTheHandler) {
  for (const char* name :
       {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
    EXPECT_EQ(outcome_of(request_fields({{name, "x"}})), kProtocolError) << name;
  EXPECT_EQ(outcome_of(request_fields({{"te", "gzip"}})), kProtocolError);
  EXPECT_EQ(outcome_of(request_fields({{"te", "trailers, gzip"}})), kProtocolError);
  EXPECT_EQ(outcome_of(with(":scheme", "https")), 400);
  EXPECT_NE(outcome_of({{":method", "CONNECT"}, {":authority", "a.test:443"}}), 200);
  EXPECT_NE(outcome_of(with(":method", "CONNECT")), 200);
  EXPECT_NE(outcome_of(request_fields({{"expect", "else"}})), 200);
  EXPECT_EQ(handled_, 0);
}

TEST_F(Http2AttackTest, LengthThatLiesNeverBecomesAWholeBody) {
  std::atomic<int> whole = 0;
  handle_with([&](Exchange& exchange) -> Task<> {
    if ((co_await exchange.read_whole_body(1000)).has_value()) ++whole;
  });
  const auto post = [&](std::string length, std::string_view data) {
    Pairs fields = with(":method", "POST");
    fields.emplace_back("content-length", length);
    return outcome_of(fields, kEndHeaders, frame(kData, kEndStream, 1, data));
  };
  EXPECT_EQ(post("3", "1234"), kProtocolError);
  EXPECT_EQ(post("5", "1234"), kProtocolError);
  EXPECT_EQ(outcome_of(request_fields({{"content-length", "5"}})), kProtocolError);
  for (const char* length : {"-1", "4,4", "+4", "0x4", "99999999999999999999"})
    EXPECT_NE(post(length, "1234"), 500) << length;
  EXPECT_NE(outcome_of(request_fields({{"content-length", "0"}, {"content-length", "0"}})), 500);
  EXPECT_EQ(whole, 0);
  EXPECT_EQ(post("4", "1234"), 500);  // this handler never answers
  EXPECT_EQ(whole, 1);
}

TEST_F(Http2AttackTest, TrailersAreCheckedLikeHeads) {
  std::atomic<int> whole = 0;
  handle_with([&](Exchange& exchange) -> Task<> {
    if ((co_await exchange.read_whole_body(1000)).has_value()) ++whole;
    exchange.respond({});
  });
  const auto post = [&](const Pairs& trailers) {
    return outcome_of(with(":method", "POST"), kEndHeaders,
                      frame(kHeaders, kEndHeaders | kEndStream, 1, hpack(trailers)));
  };
  EXPECT_EQ(post({{"x", "y"}}), 200);
  EXPECT_EQ(whole, 1);
  for (const auto& bad : Pairs{{":path", "/"},
                               {"X", "y"},
                               {"x", "a\nb"},
                               {"connection", "x"},
                               {"host", "b.test"},
                               {"content-length", "1"}})
    EXPECT_EQ(post({bad}), kProtocolError) << bad.first;
  EXPECT_EQ(post(Pairs(200, {"x", "y"})), kCalm);
  EXPECT_EQ(whole, 1);
}

TEST_F(Http2AttackTest, PaddedDataIsReadAndItsWindowComesBack) {
  FramePeer peer = dial();
  peer.greet();
  peer.send_request(1, with(":method", "POST"), kEndHeaders);
  // 512 frames of one byte and 255 of padding: twice the stream's window.
  const std::string padded =
      frame(kData, kPadded, 1, '\xff' + std::string("x") + std::string(255, '\0'));
  for (int i = 0; i < 512; ++i) {
    peer.send(padded);
    if (i % 128 == 127) (void)peer.read_frame(kWindowUpdate);
  }
  peer.send(frame(kData, kEndStream, 1));
  EXPECT_EQ(peer.read_body(1), "POST / " + std::string(512, 'x'));
}

// ---- limits

TEST_F(Http2AttackTest, LargeHeadsAreRefusedWithoutEndingTheConnection) {
  FramePeer peer = dial();
  peer.greet();
  Pairs many = request_fields(Pairs(120, {"x", "y"}));
  peer.send_request(1, many);
  EXPECT_EQ(outcome(peer), 999);  // 431
  Pairs large = request_fields({{"x", std::string(15'000, 'a')}});
  const std::string block = hpack(large);
  const std::string more = hpack(Pairs(1, {"y", std::string(15'000, 'a')}));
  peer.send(frame(kHeaders, kEndStream, 3, block));
  for (int i = 0; i < 4; ++i) peer.send(frame(kContinuation, i == 3 ? kEndHeaders : 0, 3, more));
  EXPECT_EQ(outcome(peer), 999);
  EXPECT_EQ(handled_, 0);
  peer.send_request(5, request_fields());
  EXPECT_EQ(outcome(peer), 200);
  EXPECT_EQ(handled_, 1);
}

TEST_F(Http2AttackTest, ContinuationsWithoutEndCloseTheConnection) {
  FramePeer peer = dial();
  peer.greet();
  peer.send(frame(kHeaders, 0, 1, hpack(request_fields())));
  for (int i = 0; i < 100'000; ++i)
    if (!peer.try_send(frame(kContinuation, 0, 1, hpack({{"x", "y"}})))) break;
  EXPECT_GT(peer.read_refusal(), 0);
  EXPECT_NE(peer.ending(), Ending::kStillOpen);
  EXPECT_EQ(handled_, 0);
}

TEST_F(Http2AttackTest, CompressionBombCostsNoMemory) {
  FramePeer peer = dial();
  peer.greet();
  // One entry of 4,000 bytes in the table, named 16,000 times: 64 MB of fields.
  const std::string entry = '\x40' + std::string("\x01y\x7f\xa1\x1e", 5) + std::string(4000, 'a');
  peer.send(frame(kHeaders, kEndStream, 1, hpack(request_fields()) + entry));
  peer.send(frame(kContinuation, kEndHeaders, 1, std::string(16'000, '\xbe')));
  EXPECT_EQ(outcome(peer), 999);  // 431
  EXPECT_EQ(handled_, 0);
}

TEST_F(Http2AttackTest, RapidResetsCloseTheConnection) {
  use({.nuisance_burst = 50, .nuisance_per_second = 1});
  FramePeer peer = dial();
  peer.greet();
  for (std::uint32_t id = 1; id < 100'000; id += 2)
    if (!peer.try_send(frame(kHeaders, kEndHeaders, id, hpack(request_fields())) +
                       frame(kRstStream, 0, id, number(8))))
      break;
  const Frame goaway = peer.read_frame(kGoaway);
  EXPECT_EQ(number_in(std::string_view(goaway.payload).substr(4, 4)), kCalm);
  EXPECT_NE(peer.ending(), Ending::kStillOpen);
  EXPECT_LE(handled_, 200);
}

TEST_F(Http2AttackTest, ResetStreamsStillCountUntilTheirHandlersEnd) {
  std::atomic<int> running = 0;
  handle_with(
      [&](Exchange& exchange) -> Task<> {
        ++running;
        co_await exchange.loop().sleep_until(kNever);
      },
      {.streams = 10, .leave_time = 1h});
  FramePeer peer = dial();
  peer.greet();
  for (std::uint32_t id = 1; id < 20; id += 2) peer.send_request(id, request_fields());
  EXPECT_TRUE(thread_.eventually([&] { return running == 10; }));
  for (std::uint32_t id = 1; id < 20; id += 2) peer.send(frame(kRstStream, 0, id, number(8)));
  peer.send_request(21, request_fields());
  EXPECT_EQ(peer.read_refusal(), kRefusedStream);
  EXPECT_EQ(running, 10);
}

TEST_F(Http2AttackTest, StreamsPastTheLimitAreRefused) {
  handle_with([](Exchange& exchange) { return ignore(exchange); }, {.streams = 2});
  FramePeer peer = dial();
  peer.greet();
  for (std::uint32_t id = 1; id <= 5; id += 2) peer.send_request(id, request_fields());
  const Frame refused = peer.read_frame(kRstStream);
  EXPECT_EQ(refused.stream, 5);
  EXPECT_EQ(number_in(refused.payload), kRefusedStream);
}

TEST_F(Http2AttackTest, FloodsOfSmallFramesCloseTheConnection) {
  use({.nuisance_burst = 50, .nuisance_per_second = 1});
  const std::string open = frame(kHeaders, kEndHeaders, 1, hpack(with(":method", "POST")));
  for (const std::string& nuisance : std::vector<std::string>{
           frame(kSettings, 0, 0), frame(kPing, 0, 0, "12345678"), frame(kData, 0, 1)}) {
    FramePeer peer = dial();
    peer.greet();
    peer.send(open);
    std::string flood;
    for (int i = 0; i < 1000; ++i) flood += nuisance;
    for (int i = 0; i < 1000; ++i)
      if (!peer.try_send(flood)) break;
    EXPECT_NE(peer.ending(), Ending::kStillOpen) << int{nuisance[3]};
  }
}

TEST_F(Http2AttackTest, ClientThatDoesNotReadItsAnswersIsNotReadEither) {
  use({.write_stall = 50ms, .nuisance_burst = 1'000'000});
  FramePeer peer = dial();
  peer.greet();
  std::uint32_t id = 1;
  for (; id < 4'000'000; id += 2)
    if (!peer.try_send(frame(kHeaders, kEndHeaders | kEndStream, id, hpack(without(":path")))))
      break;
  EXPECT_LT(id, 400'000);
  EXPECT_TRUE(eventually_has_connections(0));
}

TEST_F(Http2AttackTest, ZeroWindowIsGivenUpAfterTheStall) {
  std::promise<Error> failed;
  handle_with(
      [&](Exchange& exchange) -> Task<> {
        (void)co_await exchange.start({});
        const std::string piece(10'000, 'x');
        for (;;) {
          const auto written = co_await exchange.write(piece);
          if (!written) co_return failed.set_value(written.error());
        }
      },
      {.write_stall = 20ms});
  FramePeer peer = dial();
  peer.send(std::string(kMagic) + frame(kSettings, 0, 0, number(4, 2) + number(0)));
  peer.send_request(1, request_fields());
  EXPECT_EQ(failed.get_future().get().code, ErrorCode::kTimeout);
  EXPECT_EQ(peer.read_frame(kRstStream).stream, 1);
}

TEST_F(Http2AttackTest, ZeroWindowDoesNotKeepAWholeAnswer) {
  use({.write_stall = 20ms});
  FramePeer peer = dial();
  peer.send(std::string(kMagic) + frame(kSettings, 0, 0, number(4, 2) + number(0)));
  peer.send_request(1, request_fields());
  EXPECT_EQ(peer.read_frame(kRstStream).stream, 1);
}

TEST_F(Http2AttackTest, DataPastTheWindowClosesTheConnection) {
  handle_with([](Exchange& exchange) { return ignore(exchange); });
  FramePeer peer = dial();
  peer.greet();
  peer.send_request(1, with(":method", "POST"), kEndHeaders);
  for (int i = 0; i < 10; ++i)
    if (!peer.try_send(frame(kData, 0, 1, std::string(16'000, 'x')))) break;
  EXPECT_EQ(peer.read_refusal(), 3);  // FLOW_CONTROL_ERROR
}

TEST_F(Http2AttackTest, BrokenFramesCloseTheConnection) {
  const std::string huge = number(20'000, 3) + '\0' + '\0' + number(1);
  for (const std::string& bytes : std::vector<std::string>{
           frame(kHeaders, kEndHeaders, 2, hpack(request_fields())),  // a server's number
           frame(kHeaders, kEndHeaders, 0, hpack(request_fields())),
           frame(kHeaders, kEndHeaders, 1, "\xff\xff\xff\xff\xff\xff"), frame(kData, 0, 0, "x"),
           frame(kData, 0, 7, "x"), frame(kRstStream, 0, 9, number(8)),
           frame(kSettings, 0, 0, "abc"), frame(kSettings, kAck, 0, "123456"),
           frame(kPing, 0, 0, "123"), frame(kWindowUpdate, 0, 0, number(0)),
           frame(kPushPromise, kEndHeaders, 1, number(2)), frame(kContinuation, kEndHeaders, 1),
           frame(kHeaders, 0, 1, hpack(request_fields())) + frame(kPing, 0, 0, "12345678"), huge}) {
    FramePeer peer = dial();
    peer.greet();
    peer.send(bytes);
    EXPECT_GT(peer.read_refusal(), 0) << testing::PrintToString(bytes);
    EXPECT_NE(peer.ending(), Ending::kStillOpen) << testing::PrintToString(bytes);
  }
  EXPECT_EQ(handled_, 0);
}

TEST_F(Http2AttackTest, OtherProtocolsAreTurnedAway) {
  FramePeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
  EXPECT_NE(peer.ending(), Ending::kStillOpen);
  EXPECT_EQ(handled_, 0);
}

// ---- clients that take their time

TEST_F(Http2AttackTest, SilentClientsAreClosed) {
  use({.header_time = 20ms, .idle_time = 20ms});
  EXPECT_NE(dial().ending(), Ending::kStillOpen);
  FramePeer half = dial();
  half.send(kMagic.substr(0, 10));
  EXPECT_NE(half.ending(), Ending::kStillOpen);
  FramePeer idle = dial();
  idle.greet();
  idle.send_request(1, request_fields());
  EXPECT_EQ(outcome(idle), 200);
  EXPECT_EQ(number_in(idle.read_frame(kGoaway).payload.substr(4)), 0);
  EXPECT_NE(idle.ending(), Ending::kStillOpen);
}

TEST_F(Http2AttackTest, BlockOfFieldsThatTricklesInIsCutOff) {
  use({.header_time = 30ms});
  FramePeer peer = dial();
  peer.greet();
  const std::string request = frame(kHeaders, kEndHeaders, 1, hpack(request_fields()));
  for (const char c : request.substr(0, request.size() - 1)) {
    if (!peer.try_send({&c, 1})) break;
    std::this_thread::sleep_for(3ms);
  }
  EXPECT_EQ(peer.read_refusal(), kCalm);
  EXPECT_EQ(handled_, 0);
}

TEST_F(Http2AttackTest, BodyThatStallsIsRefused) {
  use({.body_idle_time = 20ms});
  EXPECT_EQ(outcome_of(with(":method", "POST"), kEndHeaders, frame(kData, 0, 1, "part")), 400);
}

TEST_F(Http2AttackTest, ClientThatWaitsForContinueGetsIt) {
  FramePeer peer = dial();
  peer.greet();
  Pairs fields = with(":method", "POST");
  fields.emplace_back("expect", "100-continue");
  peer.send_request(1, fields, kEndHeaders);
  EXPECT_EQ(peer.read_frame(kHeaders).flags & kEndStream, 0);
  peer.send(frame(kData, kEndStream, 1, "body"));
  EXPECT_EQ(peer.read_body(1), "POST / body");
}

TEST(Http2FrameTracker, KnowsWhereABlockEndsHoweverTheBytesAreCut) {
  const std::string bytes = "magic" + frame(kSettings, 0, 0, "123456") +
                            frame(kHeaders, 0, 1, "block") + frame(kContinuation, kEndHeaders, 1) +
                            frame(kData, 4, 1, "x") + frame(kHeaders, kEndHeaders, 3, "block");
  const std::size_t first = 5 + 15 + 9, first_end = first + 5 + 9, second = first_end + 10 + 9;
  Http2FrameTracker tracker(5);
  for (std::size_t at = 1; at <= bytes.size(); ++at) {
    tracker.follow(std::string_view(bytes).substr(at - 1, 1));
    const bool expected = (at >= first && at < first_end) || (at >= second && at < bytes.size());
    EXPECT_EQ(tracker.is_in_block(), expected) << at;
    Http2FrameTracker whole(5);
    whole.follow(std::string_view(bytes).substr(0, at));
    EXPECT_EQ(whole.is_in_block(), expected) << at;
  }
}

TEST_F(Http2AttackTest, EveryRequestThatIsNoneIsToldOnce) {
  std::atomic<int> told = 0;
  refuser_ = [&](int, std::string_view) {
    ++told;
    return Response{.status = 403, .body = "no"};
  };
  handle_with(echo);
  FramePeer peer = dial();
  peer.greet();
  peer.send_request(1, request_fields({{"Upper", "1"}, {"Also", "1"}}));
  EXPECT_EQ(peer.read_refusal(), kProtocolError);
  EXPECT_EQ(told, 1);
  peer.send_request(3, request_fields({{":path", "/again"}}));
  EXPECT_EQ(peer.read_refusal(), kProtocolError);
  EXPECT_EQ(told, 2);
  peer.send_request(5, request_fields({{"host", "b.test"}}));
  EXPECT_EQ(peer.read_body(5), "no");
  EXPECT_EQ(told, 3);
  peer.send_request(7, request_fields());
  EXPECT_EQ(peer.read_body(7), "GET / ");
  EXPECT_EQ(told, 3);
}

}  // namespace
}  // namespace pons::http

// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines)
