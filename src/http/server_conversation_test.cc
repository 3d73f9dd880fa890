// What a client sends and what it gets back, as text on a real connection.

#include <atomic>

#include "http_fixture.h"

namespace pons::http {
namespace {

using ConversationTest = ServerTest;

Response text(std::string body) {
  return {.content_type = "text/plain", .body = std::move(body)};
}

std::string ok(std::string_view body) {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

Task<> say_target(Exchange& exchange) {
  exchange.respond(text(std::string(exchange.request().target)));
  co_return;
}

// The body, or the code of the error that reading it gave.
Task<> echo_body(Exchange& exchange) {
  auto body = co_await exchange.read_whole_body(1 << 20);
  exchange.respond(text(body ? *body : std::string(to_string(body.error().code))));
}

Task<> stream_three(Exchange& exchange) {
  expect_ok(co_await exchange.start({.content_type = "text/plain"}));
  expect_ok(co_await exchange.write("one"));
  expect_ok(co_await exchange.write(""));
  expect_ok(co_await exchange.write("twelve bytes"));
  expect_ok(co_await exchange.finish());
}

Task<> stream_in_two(Exchange& exchange) {
  expect_ok(co_await exchange.start({.content_type = "text/plain", .body = "first"}));
  expect_ok(co_await exchange.finish("last"));
}

// ---- one connection, several requests

TEST_F(ConversationTest, ConnectionIsKeptForTheNextRequest) {
  serve(say_target);
  TextPeer peer = dial();
  for (const std::string target : {"/one", "/two", "/three"}) {
    peer.send("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(peer.read_answer(), ok(target));
  }
  EXPECT_TRUE(eventually_has_connections(1));
}

TEST_F(ConversationTest, ConnectionCloseIsAnnouncedAndDone) {
  serve(say_target);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(peer.read_answer().contains("\r\nConnection: close\r\n"));
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

TEST_F(ConversationTest, PipelinedRequestsAreAnsweredInOrder) {
  serve(say_target);
  TextPeer peer = dial();
  std::string requests, answers;
  for (int i = 0; i < 500; ++i) {  // more than one buffer holds
    const std::string target = "/" + std::to_string(i);
    requests += "GET " + target + " HTTP/1.1\r\nHost: a\r\nX-Filling: 0123456789012345\r\n\r\n";
    answers += ok(target);
  }
  peer.send(requests);
  std::string got;
  for (int i = 0; i < 500; ++i) got += peer.read_answer();
  EXPECT_EQ(got, answers);
}

Task<> answer_slowly(Exchange& exchange, std::atomic<int>& running) {
  EXPECT_EQ(++running, 1) << "one request of a connection at a time";
  co_await exchange.loop().sleep_for(std::chrono::milliseconds(1));
  --running;
  exchange.respond(text(std::string(exchange.request().target)));
}

TEST_F(ConversationTest, PipelinedRequestsAreHandledOneAtATime) {
  std::atomic<int> running = 0;
  serve([&](Exchange& exchange) { return answer_slowly(exchange, running); });
  TextPeer peer = dial();
  peer.send(
      "GET /a HTTP/1.1\r\nHost: a\r\n\r\nPOST /b HTTP/1.1\r\nHost: a\r\nContent-Length: "
      "3\r\n\r\nxyz"
      "GET /c HTTP/1.1\r\nHost: a\r\n\r\n");
  for (const auto* target : {"/a", "/b", "/c"}) EXPECT_EQ(peer.read_answer(), ok(target));
}

TEST_F(ConversationTest, RequestCutAnywhereIsTheSameRequest) {
  serve(echo_body);
  const std::string request =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;x=y\r\nabc\r\n4\r\ndefg\r\n0\r\nX: y\r\n\r\n";
  TextPeer peer = dial();
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    peer.send(request.substr(0, cut));
    peer.send(request.substr(cut));
    ASSERT_EQ(peer.read_answer(), ok("abcdefg")) << "cut at " << cut;
  }
}

TEST_F(ConversationTest, ManyConnectionsDoNotMixTheirAnswers) {
  serve(say_target);
  std::vector<TextPeer> peers;
  for (int i = 0; i < 50; ++i) peers.push_back(dial());
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < peers.size(); ++i)
      peers[i].send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    for (std::size_t i = 0; i < peers.size(); ++i)
      EXPECT_EQ(peers[i].read_answer(), ok("/" + std::to_string(i)));
  }
}

// ---- versions and methods

TEST_F(ConversationTest, OldVersionIsAnsweredAndClosed) {
  serve(say_target);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(peer.read_to_end().substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

TEST_F(ConversationTest, OldVersionMayAskToKeepTheConnection) {
  serve(say_target);
  TextPeer peer = dial();
  for (int i = 0; i < 2; ++i) {
    peer.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_TRUE(peer.read_answer().contains("\r\nConnection: keep-alive\r\n"));
  }
}

TEST_F(ConversationTest, OldVersionNeverSeesChunks) {
  serve(stream_three);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(peer.read_head(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(peer.read_to_end(), "onetwelve bytes");
}

TEST_F(ConversationTest, HeadGetsTheHeadOnly) {
  serve(say_target);
  TextPeer peer = dial();
  peer.send("HEAD /five HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(peer.read_answer("HEAD"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(peer.read_answer(), ok("/next"));
}

TEST_F(ConversationTest, HeadOfAStreamHasNoChunks) {
  serve(stream_three);
  TextPeer peer = dial();
  peer.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(peer.read_answer("HEAD").ends_with("Transfer-Encoding: chunked\r\n\r\n"));
  EXPECT_TRUE(peer.read_answer().starts_with("HTTP/1.1 200 OK\r\n"));
}

Task<> answer_nothing_to_say(Exchange& exchange) {
  exchange.respond({.status = 204, .content_type = "", .body = "ignored", .fields = {{"X", "y"}}});
  co_return;
}

TEST_F(ConversationTest, NoContentHasNeitherLengthNorBody) {
  serve(answer_nothing_to_say);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(peer.read_answer(), "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n");
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(peer.read_answer(), "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n");
}

TEST_F(ConversationTest, StreamedAnswerComesInChunks) {
  serve(stream_three);
  TextPeer peer = dial();
  for (int i = 0; i < 2; ++i) {
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(peer.read_answer(),
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
              "3\r\none\r\nc\r\ntwelve bytes\r\n0\r\n\r\n");
  }
}

TEST_F(ConversationTest, FirstAndLastPieceLeaveWithHeadAndEnd) {
  serve(stream_in_two);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(peer.read_answer(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
            "5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n");
  peer.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(peer.read_answer("HEAD").ends_with("Transfer-Encoding: chunked\r\n\r\n"));
  TextPeer old = dial();
  old.send("GET / HTTP/1.0\r\n\r\n");
  old.read_head();
  EXPECT_EQ(old.read_to_end(), "firstlast");
}

Task<> answer_large(Exchange& exchange) {
  exchange.respond(text(std::string(3'000'000, 'x')));
  co_return;
}

TEST_F(ConversationTest, LargeAnswerArrivesWhole) {
  serve(answer_large);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(peer.read_answer(), ok(std::string(3'000'000, 'x')));
}

TEST_F(ConversationTest, ClientThatFinishedSendingStillGetsItsAnswer) {
  serve(answer_large);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  peer.finish_sending();
  EXPECT_EQ(peer.read_answer(), ok(std::string(3'000'000, 'x')));
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

// ---- request bodies

TEST_F(ConversationTest, BodyByLengthAndByChunks) {
  serve(echo_body);
  TextPeer peer = dial();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_EQ(peer.read_answer(), ok("hello"));
  peer.send(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
  EXPECT_EQ(peer.read_answer(), ok("hello"));
  peer.send("POST / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(peer.read_answer(), ok(""));
}

TEST_F(ConversationTest, LargeBodyPassesThrough) {
  serve(echo_body);
  const std::string body(1 << 20, 'b');
  TextPeer peer = dial();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
            "\r\n\r\n" + body);
  EXPECT_EQ(peer.read_answer(), ok(body));
}

TEST_F(ConversationTest, ContinueIsSentWhenTheHandlerReads) {
  serve(echo_body);
  TextPeer peer = dial();
  for (int i = 0; i < 2; ++i) {
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    EXPECT_EQ(peer.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    peer.send("hello");
    EXPECT_EQ(peer.read_answer(), ok("hello"));
  }
}

TEST_F(ConversationTest, ContinueIsNotSentToAClientWhoseBodyIsNotWanted) {
  serve(say_target);
  TextPeer peer = dial();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  // Whether the body follows is now unknown: the client must hear that the connection ends.
  EXPECT_EQ(peer.read_answer(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n"
            "Connection: close\r\n\r\n/");
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

Task<> start_then_read(Exchange& exchange) {
  expect_ok(co_await exchange.start({.content_type = "text/plain"}));
  const auto body = co_await exchange.read_whole_body(100);
  expect_ok(co_await exchange.write(body ? *body : "error"));
  expect_ok(co_await exchange.finish());
}

TEST_F(ConversationTest, ContinueNeverStandsInsideAnAnswer) {
  serve(start_then_read);
  TextPeer peer = dial();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(peer.read_head().starts_with("HTTP/1.1 200 OK\r\n"));
  peer.send("hello");
  EXPECT_EQ(peer.read_to_end(), "5\r\nhello\r\n0\r\n\r\n");
}

TEST_F(ConversationTest, UnreadBodyIsSkippedBeforeTheNextRequest) {
  serve(say_target);
  TextPeer peer = dial();
  peer.send(
      "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\n"
      "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
      "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
  for (const auto* target : {"/1", "/2", "/3"}) EXPECT_EQ(peer.read_answer(), ok(target));
}

TEST_F(ConversationTest, UnreadBodyThatIsLongEndsTheConnection) {
  serve(say_target);
  TextPeer peer = dial();
  peer.send("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n");
  EXPECT_EQ(peer.read_answer(), ok("/1"));
  peer.send(std::string(900'000, 'x'));
  peer.try_send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(peer.read_to_end(), "");
}

TEST_F(ConversationTest, BodyPastTheLimitIsAnErrorAndEndsTheConnection) {
  serve(echo_body, {.body_bytes = 10});
  for (const std::string body :
       {"Content-Length: 11\r\n\r\n01234567890",
        "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n"}) {
    TextPeer peer = dial();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\n" + body + "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(peer.read_to_end().substr(0, 15), "HTTP/1.1 200 OK");
    EXPECT_EQ(peer.ending(), Ending::kClosed);
  }
  TextPeer peer = dial();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789");
  EXPECT_EQ(peer.read_answer(), ok("0123456789"));
}

TEST_F(ConversationTest, BodyAnnouncedPastTheLimitIsNeverAskedFor) {
  serve(echo_body, {.body_bytes = 10});
  TextPeer peer = dial();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(peer.read_answer(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
            "Connection: close\r\n\r\nlimit");
}

TEST_F(ConversationTest, BodyCutShortByTheClientIsAnError) {
  std::promise<Error> told;
  const auto read = [](Exchange& exchange, std::promise<Error>& out) -> Task<> {
    auto body = co_await exchange.read_whole_body(100);
    out.set_value(body ? Error{} : body.error());
  };
  serve([&](Exchange& exchange) { return read(exchange, told); });
  TextPeer peer = dial();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
  peer.finish_sending();
  EXPECT_EQ(told.get_future().get().code, ErrorCode::kUnavailable);
}

// ---- what could mean two things is refused

class RefusalTest : public ServerTest, public ::testing::WithParamInterface<const char*> {};

// The answer, then nothing more: what follows a refused request is never taken for a request.
TEST_P(RefusalTest, GetsFourHundredAndTheConnectionEnds) {
  serve(echo_body);
  TextPeer peer = dial();
  peer.send(std::string(GetParam()) + "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string answer = peer.read_answer();
  EXPECT_EQ(answer.substr(0, 24), "HTTP/1.1 400 Bad Request");
  EXPECT_TRUE(answer.contains("\r\nConnection: close\r\n")) << answer;
  EXPECT_EQ(peer.read_to_end(), "");
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

// The same after a request that was fine.
TEST_P(RefusalTest, GetsFourHundredOnAKeptConnectionToo) {
  serve(echo_body);
  TextPeer peer = dial();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok" + std::string(GetParam()));
  EXPECT_EQ(peer.read_answer(), ok("ok"));
  EXPECT_EQ(peer.read_answer().substr(0, 24), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

INSTANTIATE_TEST_SUITE_P(
    Heads, RefusalTest,
    ::testing::Values(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"));

Task<> report_body_error(Exchange& exchange) {
  auto body = co_await exchange.read_whole_body(1 << 20);
  if (body) {
    exchange.respond(text(*body));
  } else {
    exchange.respond(error_response(400, "invalid_request", body.error().message));
  }
}

TEST_F(ConversationTest, BadChunkEndsTheConnectionAfterTheAnswer) {
  serve(report_body_error);
  for (const std::string chunks :
       {"zz\r\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n", "3\nabc\r\n0\r\n\r\n", "-1\r\n",
        "fffffffffffffffff\r\n", "3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n"}) {
    TextPeer peer = dial();
    peer.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks +
              "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
    const std::string answer = peer.read_answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << chunks;
    EXPECT_TRUE(answer.contains("\r\nConnection: close\r\n")) << chunks;
    EXPECT_EQ(peer.read_to_end(), "") << chunks;
  }
}

TEST_F(ConversationTest, BadChunkInABodyNobodyReadEndsTheConnection) {
  serve(say_target);
  TextPeer peer = dial();
  peer.send(
      "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
      "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(peer.read_answer(), ok("/1"));
  EXPECT_EQ(peer.read_to_end(), "");
}

TEST_F(ConversationTest, HeadOfAMegabyteIsRefusedAndTheAnswerArrives) {
  serve(say_target);
  TextPeer peer = dial();
  peer.try_send("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(1'000'000, 'x'));
  EXPECT_EQ(peer.read_answer().substr(0, 12), "HTTP/1.1 431");
  peer.finish_sending();
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

TEST_F(ConversationTest, TenThousandFieldsAreRefused) {
  serve(say_target, {.head = {.bytes = 1 << 20}});
  std::string head = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 10'000; ++i) head += "X-" + std::to_string(i) + ": y\r\n";
  TextPeer peer = dial();
  peer.send(head + "\r\n");
  EXPECT_EQ(peer.read_answer().substr(0, 12), "HTTP/1.1 431");
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

// ---- handlers that fail

Task<> throw_at_once(Exchange&) {
  throw std::runtime_error("a library failed");
  co_return;
}

TEST_F(ConversationTest, HandlerThatThrowsGivesFiveHundredAndTheConnectionGoesOn) {
  serve(throw_at_once);
  TextPeer peer = dial();
  for (int i = 0; i < 2; ++i) {
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    const std::string answer = peer.read_answer();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 "));
    EXPECT_FALSE(answer.contains("a library failed")) << "what failed is for the log";
  }
}

TEST_F(ConversationTest, HandlerThatThrowsSomethingElseGivesFiveHundredToo) {
  serve([](Exchange&) -> Task<> { throw 7; });
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(peer.read_answer().starts_with("HTTP/1.1 500 "));
}

TEST_F(ConversationTest, HandlerThatAnswersNothingGivesFiveHundred) {
  serve([](Exchange&) -> Task<> { co_return; });
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(peer.read_answer().starts_with("HTTP/1.1 500 "));
}

Task<> throw_in_stream(Exchange& exchange) {
  expect_ok(co_await exchange.start({.content_type = "text/plain"}));
  expect_ok(co_await exchange.write("begun"));
  throw std::runtime_error("a library failed");
}

TEST_F(ConversationTest, HandlerThatThrowsInAStreamLeavesItVisiblyCutOff) {
  serve(throw_in_stream);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(peer.read_to_end().ends_with("\r\n\r\n5\r\nbegun\r\n"));
}

Task<> abort_stream(Exchange& exchange) {
  expect_ok(co_await exchange.start({.content_type = "text/plain"}));
  expect_ok(co_await exchange.write("begun"));
  exchange.abort();
  EXPECT_FALSE(co_await exchange.write("more"));
  EXPECT_FALSE(co_await exchange.finish());
}

TEST_F(ConversationTest, AbortedStreamIsCutOffAndTakesNoMore) {
  serve(abort_stream);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(peer.read_to_end().ends_with("\r\n\r\n5\r\nbegun\r\n"));
}

TEST_F(ConversationTest, AbortedStreamOfTheOldVersionEndsInAReset) {
  serve(abort_stream);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(peer.ending(), Ending::kReset) << "a plain end would mean a complete answer";
}

Task<> return_in_stream(Exchange& exchange) {
  expect_ok(co_await exchange.start({.content_type = "text/plain"}));
  expect_ok(co_await exchange.write("begun"));
}

TEST_F(ConversationTest, HandlerThatReturnsWithoutFinishingLeavesItsStreamCutOff) {
  serve(return_in_stream);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(peer.read_to_end().ends_with("\r\n\r\n5\r\nbegun\r\n"));
}

}  // namespace
}  // namespace pons::http
