// Clients that want to be asked for their body, and do not read that they are: an answer that
// begins meanwhile is a second writer on the connection.

#include <atomic>

#include "http_fixture.h"

namespace pons::http {
namespace {

constexpr std::string_view kPost =
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    "0\r\n\r\n";

Task<> read_to_end(Exchange& exchange) {
  for (;;) {
    const auto piece = co_await exchange.read_body();
    if (!piece || piece->empty()) co_return;
  }
}

class ContinueTest : public ServerTest {
 protected:
  ~ContinueTest() override { stop(); }

  // As one does who passes bytes on in both directions.
  Task<> answer_beside_reading(Exchange& exchange) {
    linux::TaskGroup reading(exchange.loop());
    reading.spawn(read_to_end(exchange));
    const auto started = co_await exchange.start({.body = "{}"});
    if (!started) ++refused_;
    if (started) expect_ok(co_await exchange.finish());
    co_await reading.wait_until_empty(exchange.loop().now() + kPatience);
  }
  void serve_both_ways() {
    serve([this](Exchange& exchange) { return answer_beside_reading(exchange); });
  }
  TextPeer hand_over(linux::SocketPair ends) {
    thread_.call([&] { expect_ok(server_->serve(std::move(ends.second), {.role = "public"})); });
    return TextPeer(std::move(ends.first));
  }
  void expect_others_are_served() {
    TextPeer peer = dial();
    peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_TRUE(peer.read_answer().starts_with("HTTP/1.1 200 "));
  }

  std::atomic<int> refused_ = 0;  // answers that could not begin
};

TEST_F(ContinueTest, NoAnswerBeginsBehindAQuestionThatIsNotRead) {
  serve_both_ways();
  auto ends = std::move(*linux::create_socket_pair(SOCK_STREAM));
  const std::string filling(1024, '#');  // so that not one more byte can be sent to this client
  while (::send(ends.second.get(), filling.data(), filling.size(), MSG_DONTWAIT) > 0) {
  }
  TextPeer peer = hand_over(std::move(ends));
  peer.send(kPost);
  EXPECT_TRUE(thread_.eventually([&] { return refused_ == 1; }));
  const std::string heard = peer.read_to_end();
  EXPECT_EQ(heard.substr(heard.rfind('#') + 1), "HTTP/1.1 100 Continue\r\n\r\n");
  expect_others_are_served();
}

// Sends as much of `text` as the server takes. When it takes nothing, reads at most `bytes`. What
// is left to send; nothing when the server has ended the connection.
std::string_view send_reluctantly(int fd, std::string_view text, std::size_t bytes) {
  const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) return text.substr(static_cast<std::size_t>(sent));
  if (errno != EAGAIN) return {};
  pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
  std::string little(bytes, '\0');
  const bool is_stuck = poll(&room, 1, 1) == 0;
  const bool ended = is_stuck && recv(fd, little.data(), bytes, MSG_DONTWAIT) == 0;
  return ended ? std::string_view() : text;
}

TEST_F(ContinueTest, ClientsThatAskForMoreThanTheyReadHarmNobody) {
  serve_both_ways();
  auto ends = std::move(*linux::create_socket_pair(SOCK_STREAM));
  const int small = 16 * 1024;  // of each direction, so that both are full soon
  for (const int fd : {ends.first.get(), ends.second.get()})
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  const TextPeer peer = hand_over(std::move(ends));
  std::string requests;
  for (int i = 0; i < 20'000; ++i) requests += kPost;
  std::string_view left = requests;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (std::size_t i = 0; refused_ == 0 && !left.empty(); ++i) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    left = send_reluctantly(peer.fd(), left, 1 + i * 97 % 1000);
  }
  EXPECT_TRUE(thread_.eventually([&] { return refused_ > 0; }))
      << "the client never stood in the way of a question";
  expect_others_are_served();
}

}  // namespace
}  // namespace pons::http
