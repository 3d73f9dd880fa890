// Answers whose connection breaks: behind their last word, and before it.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "gateway_fixture.h"
#include "pons/linux/tcp.h"

namespace pons::gateway {
namespace {

constexpr const char* kHello =
    R"(data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hello"}}]})"
    "\n\n";
constexpr const char* kWorld =
    R"(data: {"id":"c","choices":[{"index":0,"delta":{"content":" world"}}]})"
    "\n\n";
constexpr const char* kStop =
    R"(data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
    "\n\n";
constexpr const char* kUsage =
    R"(data: {"id":"c","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}})"
    "\n\n";
constexpr const char* kDone = "data: [DONE]\n\n";

// Answers each request with the same pieces of a stream of Chat Completions, and resets the
// connection instead of ending it.
class ResettingProvider {
 public:
  explicit ResettingProvider(std::vector<std::string> pieces,
                             std::chrono::milliseconds pause = std::chrono::milliseconds(20))
      : pieces_(std::move(pieces)), pause_(pause) {
    auto listener = linux::listen_tcp("127.0.0.1", 0);
    if (!listener) std::abort();
    listener_ = std::move(*listener);
    thread_ = std::thread([this] { serve(); });
  }
  ~ResettingProvider() {
    over_ = true;
    thread_.join();
  }

  std::string document(const char* protocol = "chat") const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      std::abort();
    return fmt::format(
        R"({{"kind":"openai-compatible","url":"http://127.0.0.1:{}/v1","protocols":["{}"]}})",
        ntohs(address.sin_port), protocol);
  }

 private:
  void serve() {
    while (!over_) {
      pollfd ready{.fd = listener_.get(), .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 20) != 1) continue;
      const int client = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      answer(client);
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      ::close(client);
    }
  }

  void answer(int client) const {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::string request;
    while (!is_whole(request)) {
      std::array<char, 16'384> piece;
      const ssize_t more = recv(client, piece.data(), piece.size(), 0);
      if (more <= 0) return;
      request.append(piece.data(), static_cast<std::size_t>(more));
    }
    send_all(client,
             "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
             "Transfer-Encoding: chunked\r\n\r\n");
    for (const std::string& piece : pieces_) {
      send_all(client, fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
      if (&piece != &pieces_.back()) std::this_thread::sleep_for(pause_);
    }
  }

  static bool is_whole(const std::string& request) {
    constexpr std::string_view kLength = "Content-Length: ";
    const std::size_t head = request.find("\r\n\r\n");
    const std::size_t length = request.find(kLength);
    if (head == std::string::npos || length == std::string::npos) return false;
    return request.size() - head - 4 >=
           std::strtoul(&request[length + kLength.size()], nullptr, 10);
  }

  static void send_all(int client, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  std::vector<std::string> pieces_;
  std::chrono::milliseconds pause_;
  linux::UniqueFd listener_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

class BrokenEndTest : public GatewayTest {
 protected:
  void open_over(const ResettingProvider& provider, const char* protocol = "chat") {
    open({{"far", provider.document(protocol)}}, {{"test", R"({"try":["far/m"]})"}});
  }
  // Reads the beginning of a stream and is gone.
  void call_and_leave() {
    std::thread client([socket = socket_of("front")] {
      sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
      socket.copy(address.sun_path, sizeof address.sun_path - 1);
      const linux::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const timeval patience{.tv_sec = 10, .tv_usec = 0};
      setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return;
      const std::string body =
          R"({"model":"test","max_tokens":5000,"stream":true,"messages":[{"role":"user","content":"hi"}]})";
      const std::string request = fmt::format(
          "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}",
          body.size(), body);
      if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return;
      std::string heard;
      std::array<char, 4'096> piece;
      while (heard.find("Hello") == std::string::npos) {
        const ssize_t more = ::recv(fd.get(), piece.data(), piece.size(), 0);
        if (more <= 0) return;
        heard.append(piece.data(), static_cast<std::size_t>(more));
      }
    });
    run(until_settled());
    client.join();
  }
  Task<bool> until_settled() {
    const std::string root = (co_await book_->keys().ensure_root("default"))->id;
    const auto settled = [&] {
      return book_->used(root, budget::Window::kTotal)[budget::What::kRequests] > 0;
    };
    for (int i = 0; i < 1'000 && !settled(); ++i)
      co_await loop_->sleep_for(std::chrono::milliseconds(10));
    co_return settled();
  }
  Answer call(const char* target, bool stream) {
    return ask("front", "POST", target, {},
               fmt::format(R"({{"model":"test","max_tokens":9,"stream":{},)"
                           R"("messages":[{{"role":"user","content":"hi"}}]}})",
                           stream));
  }
  std::int64_t tokens() {
    return book_->used(run(book_->keys().ensure_root("default"))->id,
                       budget::Window::kTotal)[budget::What::kTokens];
  }
};

TEST_F(BrokenEndTest, AnAnswerWithItsLastWordIsWholeHoweverItsConnectionEnds) {
  const std::string all = std::string(kHello) + kWorld + kStop + kUsage + kDone;
  const std::vector<std::vector<std::string>> kWays = {
      {all},
      {kHello, std::string(kWorld) + kStop + kUsage + kDone},
      {kHello, kStop, kUsage, kDone}};
  for (const auto& pieces : kWays) {
    const ResettingProvider provider(pieces);
    close();
    ASSERT_NO_FATAL_FAILURE(open_over(provider));
    const std::int64_t before = tokens();
    // More often than a provider may fail until it is left alone.
    for (int i = 0; i < 6; ++i) {
      const Answer passed = call("/v1/chat/completions", true);
      EXPECT_EQ(passed.status, 200);
      EXPECT_TRUE(passed.text.ends_with(kDone)) << passed.text;
      EXPECT_EQ(passed.text.find("\"error\""), std::string::npos) << passed.text;
    }
    const Answer translated = call("/v1/messages", true);
    EXPECT_NE(translated.text.find("message_stop"), std::string::npos) << translated.text;
    EXPECT_EQ(translated.text.find("event: error"), std::string::npos) << translated.text;
    const Answer whole = call("/v1/messages", false);
    EXPECT_EQ(whole.status, 200) << whole.text;
    EXPECT_EQ(tokens() - before, 8 * 7) << "as the provider counted them";
  }
}

TEST_F(BrokenEndTest, WithoutItsLastWordItIsBrokenAndWhatCameIsToldBeforeTheError) {
  // So that what has begun is passed on before the rest comes.
  const ResettingProvider provider({kHello, std::string(kWorld) + kStop + kUsage},
                                   std::chrono::seconds(1));
  ASSERT_NO_FATAL_FAILURE(open_over(provider));
  const Answer passed = call("/v1/chat/completions", true);
  const std::size_t world = passed.text.find(" world");
  EXPECT_NE(world, std::string::npos) << passed.text;
  EXPECT_NE(passed.text.find("\"error\"", world), std::string::npos) << passed.text;
  EXPECT_EQ(passed.text.find("[DONE]"), std::string::npos) << passed.text;
  const Answer translated = call("/v1/messages", true);
  EXPECT_NE(translated.text.find("event: error"), std::string::npos) << translated.text;
  EXPECT_EQ(translated.text.find("message_stop"), std::string::npos) << translated.text;
}

TEST_F(BrokenEndTest, CommentsThatTrickleInAreNoProgressOfAnAnswer) {
  std::vector<std::string> pieces(12, ": wait\n\n");
  pieces.front() = kHello;
  const ResettingProvider provider(pieces, std::chrono::milliseconds(250));
  std::string document = provider.document();
  document.insert(document.size() - 1, R"(,"next_event_seconds":1)");
  open({{"far", document}}, {{"test", R"({"try":["far/m"]})"}});
  const Answer answer = call("/v1/chat/completions", true);
  EXPECT_NE(answer.text.find("Hello"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("did not answer in time"), std::string::npos) << answer.text;
  EXPECT_EQ(answer.text.find("[DONE]"), std::string::npos) << answer.text;
}

TEST_F(BrokenEndTest, WhoLeavesPaysWhatTheProviderSaysIfItSaysSoSoon) {
  const ResettingProvider provider(
      {kHello,
       std::string(kWorld) + kStop +
           R"(data: {"id":"c","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":900}})"
           "\n\n" +
           kDone},
      std::chrono::milliseconds(100));
  ASSERT_NO_FATAL_FAILURE(open_over(provider));
  call_and_leave();
  EXPECT_EQ(tokens(), 905);
}

TEST_F(BrokenEndTest, WhoLeavesPaysForWhatMayHaveBeenThoughtUnseen) {
  const ResettingProvider provider({kHello, kWorld}, std::chrono::seconds(3));
  ASSERT_NO_FATAL_FAILURE(open_over(provider));
  call_and_leave();
  // It was seen to make two words, and had half a second at least.
  EXPECT_GT(tokens(), 150);
  EXPECT_LE(tokens(), 5'100) << "no more than was reserved";
}

TEST_F(BrokenEndTest, AResponseThatBreaksIsEndedWhereItIs) {
  const std::string created =
      R"(data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"m"}})"
      "\n\n";
  const std::string delta =
      R"(data: {"type":"response.output_text.delta","sequence_number":1,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hello"})"
      "\n\n";
  const std::string failed =
      R"(data: {"type":"response.failed","sequence_number":2,"response":{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"their own words"},"future":1}})"
      "\n\n";
  const auto call_responses = [&](const std::string& last, const char* spoken) {
    const ResettingProvider provider({created + delta, last}, std::chrono::milliseconds(500));
    close();
    open_over(provider, spoken);
    return ask("front", "POST", "/v1/responses", {},
               R"({"model":"test","stream":true,"input":"hi"})");
  };
  const Answer theirs = call_responses(failed, "responses");
  EXPECT_TRUE(theirs.text.ends_with(created + delta + failed)) << theirs.text;
  const Answer cut = call_responses(": nothing more\n\n", "responses");
  EXPECT_NE(cut.text.find(R"("type":"error","sequence_number":2)"), std::string::npos) << cut.text;
  EXPECT_NE(
      cut.text.find(R"("type":"response.failed","sequence_number":3,"response":{"id":"resp_1")"),
      std::string::npos)
      << cut.text;
  EXPECT_EQ(cut.text.find("response.completed"), std::string::npos);
}

TEST_F(BrokenEndTest, AResponseOfAnotherProtocolThatBreaksIsCountedOn) {
  const ResettingProvider provider({kHello, kWorld}, std::chrono::seconds(1));
  ASSERT_NO_FATAL_FAILURE(open_over(provider));
  const Answer cut =
      ask("front", "POST", "/v1/responses", {}, R"({"model":"test","stream":true,"input":"hi"})");
  EXPECT_NE(cut.text.find("event: error"), std::string::npos) << cut.text;
  EXPECT_NE(cut.text.find("event: response.failed"), std::string::npos) << cut.text;
  std::int64_t next = 0;
  constexpr std::string_view kNumber = "\"sequence_number\":";
  for (std::size_t at = cut.text.find(kNumber); at != std::string::npos;
       at = cut.text.find(kNumber, at + 1))
    EXPECT_EQ(std::stoll(cut.text.substr(at + kNumber.size())), next++) << cut.text;
  EXPECT_GT(next, 5);
}

}  // namespace
}  // namespace pons::gateway
