// What the server does when a client, or everyone at once, does not behave: time, memory, the
// number of connections, and its own end.

#include <atomic>

#include "http_fixture.h"

namespace pons::http {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using LimitsTest = ServerTest;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

Task<> answer(Exchange& exchange) {
  exchange.respond({.body = "{}"});
  co_return;
}

bool is_answered(TextPeer& peer) {
  peer.send(kGet);
  return peer.read_answer().starts_with("HTTP/1.1 200 ");
}

// What a test and its handlers tell each other. Made and used on the loop's thread, except for the
// counters.
struct Stage {
  explicit Stage(linux::Loop& loop) : go(loop) {}
  linux::Event go;
  std::atomic<int> entered = 0;
  std::atomic<int> left = 0;  // counts cancelled handlers too
};

// Waits to be told to answer.
Task<> answer_on_cue(Exchange& exchange, Stage& stage) {
  struct Leave {
    Stage& stage;
    ~Leave() { ++stage.left; }
  } const leave{stage};
  ++stage.entered;
  co_await stage.go.wait(kNever);
  exchange.respond({.body = "{}"});
}

// Runs handlers that wait for cue() on any path but "/".
class StagedTest : public ServerTest {
 protected:
  ~StagedTest() override {
    stop();
    thread_.call([this] { stage_.reset(); });
  }
  void serve_staged(ServerLimits limits = {}) {
    thread_.call([this] { stage_.emplace(thread_.loop()); });
    serve(
        [this](Exchange& exchange) {
          return exchange.request().path() == "/" ? answer(exchange)
                                                  : answer_on_cue(exchange, *stage_);
        },
        limits);
  }
  TextPeer dial_busy() {
    TextPeer peer = dial();
    const int entered = stage_->entered;
    peer.send("GET /on-cue HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_TRUE(thread_.eventually([&] { return stage_->entered > entered; }));
    return peer;
  }
  void cue() {
    thread_.call([this] { stage_->go.set(); });
  }
  // Starts draining and returns when the listener is gone.
  std::future<void> start_drain(Duration allowed) {
    auto done = std::make_shared<std::promise<void>>();
    const auto drain = [](Server& server, TimePoint deadline,
                          std::shared_ptr<std::promise<void>> drained) -> Task<> {
      co_await server.drain(deadline);
      drained->set_value();
    };
    thread_.call(
        [&] { thread_.loop().spawn(drain(*server_, thread_.loop().now() + allowed, done)); });
    return done->get_future();
  }

  std::optional<Stage> stage_;
};

bool is_refused(std::uint16_t port) {
  const linux::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

// ---- time

TEST_F(LimitsTest, HeadThatTricklesInIsGivenUpAndSaidSo) {
  serve(answer, {.header_time = milliseconds(100)});
  TextPeer peer = dial();
  EXPECT_TRUE(is_answered(peer));
  peer.send("GET / HTTP/1.1\r\nX: ");
  // Each byte is progress, and none of it buys more time.
  while (peer.is_quiet() && peer.try_send("x")) std::this_thread::sleep_for(milliseconds(1));
  const std::string refusal = peer.read_answer();
  EXPECT_TRUE(refusal.starts_with("HTTP/1.1 408 ")) << refusal;
  EXPECT_TRUE(refusal.contains("\r\nConnection: close\r\n"));
  peer.close();
  EXPECT_TRUE(eventually_has_connections(0));
}

TEST_F(LimitsTest, SilentConnectionIsClosed) {
  serve(answer, {.idle_time = milliseconds(50)});
  TextPeer fresh = dial();
  EXPECT_EQ(fresh.read_to_end(), "");
  EXPECT_EQ(fresh.ending(), Ending::kClosed);
  TextPeer used = dial();
  EXPECT_TRUE(is_answered(used));
  EXPECT_EQ(used.read_to_end(), "");
  EXPECT_TRUE(eventually_has_connections(0));
}

TEST_F(LimitsTest, BodyThatStopsComingIsAnError) {
  std::promise<ErrorCode> told;
  const auto read = [](Exchange& exchange, std::promise<ErrorCode>& out) -> Task<> {
    const auto body = co_await exchange.read_whole_body(100);
    out.set_value(body ? ErrorCode::kInternal : body.error().code);
    exchange.respond({.status = 408});
  };
  serve([&](Exchange& exchange) { return read(exchange, told); },
        {.body_idle_time = milliseconds(50)});
  TextPeer peer = dial();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
  EXPECT_EQ(told.get_future().get(), ErrorCode::kTimeout);
  EXPECT_TRUE(peer.read_answer().contains("\r\nConnection: close\r\n"));
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

TEST_F(LimitsTest, SomeBodiesMayComeMoreSlowlyThanOthers) {
  const auto read = [](Exchange& exchange) -> Task<> {
    const auto body = co_await exchange.read_whole_body(100);
    exchange.respond({.status = body ? 200 : 408});
  };
  serve(read,
        {.body_idle_time = milliseconds(50), .body_idle_time_of = [](const RequestHead& head) {
           return head.path() == "/slow" ? Duration(std::chrono::minutes(5))
                                         : Duration(milliseconds(50));
         }});
  TextPeer slow = dial();
  slow.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
  TextPeer quick = dial();
  quick.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
  EXPECT_TRUE(quick.read_answer().starts_with("HTTP/1.1 408 "));
  slow.send("56789");
  EXPECT_TRUE(slow.read_answer().starts_with("HTTP/1.1 200 "));
  // The next request on the connection is another one.
  slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
  EXPECT_TRUE(slow.read_answer().starts_with("HTTP/1.1 408 "));
}

TEST_F(LimitsTest, ClientThatVanishesInTheMiddleLeavesNothingBehind) {
  serve(answer);
  for (const std::string_view begun :
       {"", "GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"}) {
    TextPeer closing = dial();
    closing.send(begun);
    closing.close();
    TextPeer resetting = dial();
    resetting.send(begun);
    resetting.reset();
  }
  EXPECT_TRUE(eventually_has_connections(0));
}

// ---- a client that does not read

struct Flood {
  std::atomic<std::size_t> accepted = 0;  // bytes that write() took
  std::promise<Result<void>> outcome;
};

constexpr std::size_t kFloodPieceBytes = 64 * 1024;
constexpr std::size_t kFloodBytes = 100 * 1024 * 1024;

Task<> flood(Exchange& exchange, Flood& told) {
  const std::string piece(kFloodPieceBytes, 'f');
  Result<void> result = co_await exchange.start({.content_type = "text/plain"});
  while (result && told.accepted < kFloodBytes) {
    result = co_await exchange.write(piece);
    if (result) told.accepted += piece.size();
  }
  if (result) result = co_await exchange.finish();
  told.outcome.set_value(result);
}

TEST_F(LimitsTest, ReaderThatStopsSuspendsTheWriter) {
  Flood told;
  serve([&](Exchange& exchange) { return flood(exchange, told); });
  TextPeer peer = dial();
  peer.send(kGet);
  auto outcome = told.outcome.get_future();
  // The writer rests once what the kernel took stays the same for many rounds.
  std::size_t last = 0;
  int unchanged = 0;
  ASSERT_TRUE(thread_.eventually([&] {
    unchanged = std::exchange(last, told.accepted.load()) == told.accepted ? unchanged + 1 : 0;
    return unchanged > 50;
  }));
  EXPECT_LT(told.accepted, 8U << 20);
  EXPECT_EQ(outcome.wait_for(milliseconds(0)), std::future_status::timeout);
  // And it goes on from there when the reader does.
  peer.read_head();
  peer.read_exactly(8 << 20);
  EXPECT_TRUE(thread_.eventually([&] { return told.accepted > last; }));
  peer.close();
  EXPECT_FALSE(outcome.get().has_value());
}

TEST_F(LimitsTest, ReaderThatNeverReadsIsDropped) {
  Flood told;
  serve([&](Exchange& exchange) { return flood(exchange, told); },
        {.write_stall = milliseconds(100)});
  TextPeer peer = dial();
  peer.send(kGet);
  const auto outcome = told.outcome.get_future().get();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
  EXPECT_LT(told.accepted, 8U << 20);
  EXPECT_TRUE(eventually_has_connections(0));
  EXPECT_FALSE(peer.read_to_end().ends_with("0\r\n\r\n"));
}

// A peer that closed its own direction is still one that may read: it must be waited for, and not
// be polled in a circle that leaves no turn for anyone else.
TEST_F(LimitsTest, HalfClosedReaderThatNeverReadsHoldsUpNobody) {
  Flood told;
  serve(
      [&](Exchange& exchange) {
        return exchange.request().path() == "/flood" ? flood(exchange, told) : answer(exchange);
      },
      {.write_stall = milliseconds(200)});
  TextPeer peer = dial();
  peer.send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
  peer.finish_sending();
  TextPeer other = dial();
  EXPECT_TRUE(is_answered(other));
  EXPECT_EQ(told.outcome.get_future().get().error().code, ErrorCode::kTimeout);
}

TEST_F(LimitsTest, WholeAnswerToAReaderThatNeverReadsIsDroppedToo) {
  serve(
      [](Exchange& exchange) -> Task<> {
        exchange.respond({.body = std::string(32 << 20, 'x')});
        co_return;
      },
      {.write_stall = milliseconds(100)});
  TextPeer peer = dial();
  peer.send(kGet);
  EXPECT_TRUE(eventually_has_connections(1));
  EXPECT_TRUE(eventually_has_connections(0));
}

// ---- the number of connections

TEST_F(StagedTest, LongestIdleConnectionMakesRoomForANewOne) {
  serve_staged({.connections = 2});
  TextPeer first = dial();
  EXPECT_TRUE(is_answered(first));
  TextPeer second = dial();
  EXPECT_TRUE(is_answered(second));
  TextPeer third = dial();
  EXPECT_TRUE(is_answered(third));
  EXPECT_EQ(first.ending(), Ending::kClosed);
  EXPECT_TRUE(is_answered(second));
}

TEST_F(StagedTest, ConnectionsUpToTheLimitAreAllKept) {
  serve_staged({.connections = 2});
  TextPeer first = dial();
  EXPECT_TRUE(is_answered(first));
  TextPeer second = dial();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(is_answered(second));
    EXPECT_TRUE(is_answered(first)) << "it was closed although nobody needed its place";
  }
}

TEST_F(StagedTest, BusyConnectionsAreNotEvictedAndTheNewOneWaits) {
  serve_staged({.connections = 1});
  TextPeer busy = dial_busy();
  TextPeer waiting = dial();
  waiting.send(kGet);
  // The wait begins before anything is told: the newcomer is in the backlog.
  EXPECT_TRUE(waiting.is_quiet());
  EXPECT_EQ(thread_.call([this] { return server_->connection_count(); }), 1U);
  // The connection becomes idle, which makes room.
  cue();
  EXPECT_TRUE(busy.read_answer().starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(waiting.read_answer().starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(busy.ending(), Ending::kClosed);
}

TEST_F(StagedTest, EndOfAConnectionMakesRoom) {
  serve_staged({.connections = 1});
  TextPeer busy = dial_busy();
  TextPeer waiting = dial();
  waiting.send(kGet);
  busy.close();
  cue();
  EXPECT_TRUE(waiting.read_answer().starts_with("HTTP/1.1 200 "));
}

TEST_F(StagedTest, ManyMoreClientsThanPlacesAreAllServed) {
  serve_staged({.connections = 4});
  std::vector<TextPeer> peers;
  for (int i = 0; i < 40; ++i) {
    peers.push_back(dial());
    peers.back().send(kGet);
  }
  for (TextPeer& peer : peers) EXPECT_TRUE(peer.read_answer().starts_with("HTTP/1.1 200 "));
}

TEST_F(StagedTest, SocketsHandedOverCountAndAreRefusedPastTheLimit) {
  serve_staged({.connections = 1});
  auto ends = std::move(*linux::create_socket_pair(SOCK_STREAM));
  auto more = std::move(*linux::create_socket_pair(SOCK_STREAM));
  thread_.call([&] {
    expect_ok(server_->serve(std::move(ends.second), {.role = "brain"}));
    const auto refused = server_->serve(std::move(more.second), {.role = "brain"});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
  });
  TextPeer peer(std::move(ends.first));
  EXPECT_TRUE(is_answered(peer));
  EXPECT_EQ(TextPeer(std::move(more.first)).ending(), Ending::kClosed);
}

// ---- the end of a server

TEST_F(StagedTest, DrainFinishesWhatRunsAndRefusesWhatIsNew) {
  serve_staged();
  TextPeer idle = dial();
  EXPECT_TRUE(is_answered(idle));
  TextPeer busy = dial_busy();
  auto drained = start_drain(hours(1));
  EXPECT_EQ(idle.ending(), Ending::kClosed);
  EXPECT_TRUE(is_refused(port_));
  EXPECT_EQ(drained.wait_for(milliseconds(0)), std::future_status::timeout);
  cue();
  EXPECT_TRUE(busy.read_answer().contains("\r\nConnection: close\r\n"));
  EXPECT_EQ(busy.ending(), Ending::kClosed);
  busy.close();
  EXPECT_EQ(drained.wait_for(kPatience), std::future_status::ready);
  auto ends = std::move(*linux::create_socket_pair(SOCK_STREAM));
  EXPECT_FALSE(thread_.call([&] { return server_->serve(std::move(ends.first), {}).has_value(); }));
}

TEST_F(StagedTest, DrainCancelsWhatStillRunsAtItsDeadline) {
  serve_staged();
  TextPeer busy = dial_busy();
  EXPECT_EQ(start_drain(milliseconds(20)).wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(stage_->left, 1);
  EXPECT_EQ(busy.read_to_end(), "");
  EXPECT_EQ(thread_.call([this] { return server_->connection_count(); }), 0U);
}

TEST_F(StagedTest, PipelinedRequestBehindADrainIsNotStarted) {
  serve_staged();
  TextPeer busy = dial_busy();
  busy.send("GET /on-cue HTTP/1.1\r\nHost: a\r\n\r\n");
  auto drained = start_drain(hours(1));
  cue();
  EXPECT_TRUE(busy.read_answer().contains("\r\nConnection: close\r\n"));
  EXPECT_EQ(busy.read_to_end(), "");
  busy.close();
  EXPECT_EQ(drained.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(stage_->entered, 1);
}

TEST_F(StagedTest, ServerThatIsDestroyedCancelsItsHandlers) {
  serve_staged();
  TextPeer busy = dial_busy();
  stop();
  EXPECT_EQ(stage_->left, 1);
  EXPECT_EQ(busy.read_to_end(), "");
}

// ---- the client leaves while the handler waits

Task<> answer_unless_hung_up(Exchange& exchange, std::atomic<int>& outcomes, Duration wait) {
  const bool left = co_await exchange.wait_for_hang_up(exchange.loop().now() + wait);
  outcomes += left ? 100 : 1;
  exchange.respond({.body = "{}"});
}

TEST_F(LimitsTest, HandlerLearnsThatItsClientLeft) {
  std::atomic<int> outcomes = 0;
  serve([&](Exchange& exchange) { return answer_unless_hung_up(exchange, outcomes, hours(1)); });
  TextPeer peer = dial();
  peer.send(kGet);
  EXPECT_TRUE(eventually_has_connections(1));
  peer.close();
  EXPECT_TRUE(thread_.eventually([&] { return outcomes == 100; }));
  EXPECT_TRUE(eventually_has_connections(0));
}

TEST_F(LimitsTest, WaitingForAHangUpLosesNoPipelinedRequest) {
  std::atomic<int> outcomes = 0;
  serve([&](Exchange& exchange) {
    return answer_unless_hung_up(exchange, outcomes, milliseconds(20));
  });
  TextPeer peer = dial();
  peer.send(std::string(kGet) + std::string(kGet));
  EXPECT_TRUE(peer.read_answer().starts_with("HTTP/1.1 200 "));
  peer.send(kGet);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(peer.read_answer().starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(outcomes, 3);
}

TEST_F(LimitsTest, ConnectionIsIdleAgainAfterAWaitForAHangUp) {
  std::atomic<int> outcomes = 0;
  serve(
      [&](Exchange& exchange) {
        return answer_unless_hung_up(exchange, outcomes, milliseconds(1));
      },
      {.connections = 1});
  TextPeer peer = dial();
  EXPECT_TRUE(is_answered(peer));
  TextPeer other = dial();
  EXPECT_TRUE(is_answered(other));
  EXPECT_EQ(peer.ending(), Ending::kClosed);
}

// ---- who is there

// A HEAD request takes every byte at once: nothing ever makes this handler wait.
Task<> write_for_ever(Exchange& exchange) {
  if (exchange.request().path() == "/") co_return co_await answer(exchange);
  const std::string piece(64 * 1024, 'x');
  auto going_on = co_await exchange.start({});
  while (going_on) going_on = co_await exchange.write(piece);
}

TEST_F(LimitsTest, AnAnswerThatNeverHasToWaitDoesNotStarveOthers) {
  serve(write_for_ever);
  TextPeer greedy = dial();
  greedy.send("HEAD /endless HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(greedy.read_head().starts_with("HTTP/1.1 200 "));
  TextPeer other = dial();
  EXPECT_TRUE(is_answered(other));
}

TEST_F(LimitsTest, OneCallerCannotTakeTheConnectionsOfTheOthers) {
  serve(answer, {.connections_per_role = 2});
  std::vector<linux::UniqueFd> kept;
  const auto call_as = [&](const char* role) {
    auto ends = std::move(*linux::create_socket_pair(SOCK_STREAM));
    kept.push_back(std::move(ends.first));
    return thread_.call(
        [&] { return server_->serve(std::move(ends.second), {.role = role}).has_value(); });
  };
  EXPECT_TRUE(call_as("front"));
  EXPECT_TRUE(call_as("front"));
  EXPECT_FALSE(call_as("front"));
  EXPECT_TRUE(call_as("egress"));
  kept.clear();
  ASSERT_TRUE(eventually_has_connections(0));
  EXPECT_TRUE(call_as("front")) << "connections that ended count no more";
}

Task<> say_peer(Exchange& exchange) {
  exchange.respond(
      {.content_type = "text/plain", .body = exchange.peer().role + "|" + exchange.peer().address});
  co_return;
}

TEST_F(LimitsTest, PeerIsWhatTheSocketProves) {
  serve(say_peer);
  TextPeer tcp = dial();
  // What a client says about itself changes nothing.
  tcp.send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 8.8.8.8\r\n\r\n");
  EXPECT_TRUE(tcp.read_answer().ends_with("\r\n\r\npublic|127.0.0.1"));

  const TempDir dir;
  thread_.call([&] {
    expect_ok(server_->listen(std::move(*linux::listen_unix(dir.file("socket"), 0600)), "admin"));
  });
  TextPeer local(std::move(*linux::connect_unix(dir.file("socket"))));
  local.send(kGet);
  EXPECT_TRUE(local.read_answer().ends_with("\r\n\r\nadmin|"));

  auto ends = std::move(*linux::create_socket_pair(SOCK_STREAM));
  thread_.call([&] { expect_ok(server_->serve(std::move(ends.second), {.role = "brain"})); });
  TextPeer handed(std::move(ends.first));
  handed.send(kGet);
  EXPECT_TRUE(handed.read_answer().ends_with("\r\n\r\nbrain|"));
}

}  // namespace
}  // namespace pons::http
