#pragma once

// For tests of this folder: a loop in a thread of its own, and a peer that writes and reads text on
// a real socket. Whatever belongs to the loop is made, used and destroyed on its thread by
// LoopThread; the test's thread plays the other end with blocking calls, each with a deadline.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

#include "pons/base/text.h"
#include "pons/http/server.h"
#include "pons/linux/loop.h"
#include "pons/linux/tcp.h"
#include "pons/linux/unix_socket.h"

namespace pons::http {

// Long enough for the slowest machine under a sanitizer; only a failing test waits for it.
inline constexpr std::chrono::seconds kPatience{20};

inline void expect_ok(const Result<void>& result) {
  EXPECT_TRUE(result.has_value()) << result.error().describe();
}

class LoopThread {
 public:
  LoopThread() : loop_(std::move(*linux::Loop::create())), thread_([this] { loop_->run(); }) {
    call([this] { tasks_.emplace(*loop_); });
  }
  LoopThread(const LoopThread&) = delete;
  ~LoopThread() {
    call([this] { tasks_.reset(); });
    loop_->stop();
    thread_.join();
  }

  linux::Loop& loop() { return *loop_; }

  // Runs `work` on the loop's thread and waits for it.
  template <class Work>
  std::invoke_result_t<Work> call(Work work) {
    std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
    auto done = task.get_future();
    loop_->post(std::move(task));
    return done.get();
  }

  // Starts the coroutine that `make` returns.
  template <class Make>
  auto start(Make make) {
    using Value = decltype(value_of(make()));
    auto done = std::make_shared<std::promise<Value>>();
    auto value = done->get_future();
    call([&] { tasks_->spawn(keep(make(), done)); });
    return value;
  }
  // What a started coroutine returns. One that does not end is cancelled, and the test fails.
  template <class Value>
  Value finish(std::future<Value> value) {
    if (value.wait_for(kPatience) != std::future_status::ready) {
      call([&] { tasks_->cancel_all(); });
      throw std::runtime_error("the coroutine did not end");
    }
    return value.get();
  }
  template <class Make>
  auto await(Make make) {
    return finish(start(std::move(make)));
  }

  // Waits until `condition`, asked on the loop's thread, is true.
  [[nodiscard]] bool eventually(std::function<bool()> condition) {
    return await([this, &condition] { return poll_until(*loop_, condition); });
  }

 private:
  template <class T>
  static T value_of(Task<T>);

  template <class T>
  static Task<> keep(Task<T> task, std::shared_ptr<std::promise<T>> done) {
    try {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(task);
        done->set_value();
      } else {
        done->set_value(co_await std::move(task));
      }
    } catch (...) {
      done->set_exception(std::current_exception());
    }
  }

  static Task<bool> poll_until(linux::Loop& loop, const std::function<bool()>& condition) {
    const TimePoint deadline = loop.now() + kPatience / 2;
    while (!condition()) {
      if (loop.now() > deadline) co_return false;
      co_await loop.sleep_for(std::chrono::milliseconds(1));
    }
    co_return true;
  }

  std::unique_ptr<linux::Loop> loop_;
  std::thread thread_;
  std::optional<linux::TaskGroup> tasks_;
};

// How a stream ended.
enum class Ending : std::uint8_t { kClosed, kReset, kStillOpen };

// The test's end of a connection: blocking, and never for longer than kPatience.
class TextPeer {
 public:
  explicit TextPeer(linux::UniqueFd socket) : socket_(std::move(socket)) {
    expect_ok(linux::set_nonblocking(socket_.get(), false));
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const int on = 1;  // each send() is a segment of its own; Unix sockets know no such option
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  static TextPeer connect_tcp(std::uint16_t port) {
    linux::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return TextPeer(std::move(socket));
  }

  int fd() const { return socket_.get(); }
  linux::UniqueFd release() { return std::move(socket_); }

  // False when the other side does not take it all, because it closed the connection.
  bool try_send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void send(std::string_view text) { EXPECT_TRUE(try_send(text)) << "the other side left"; }

  void finish_sending() { shutdown(socket_.get(), SHUT_WR); }
  void close() { socket_.reset(); }
  // Leaves with a reset instead of a FIN.
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    socket_.reset();
  }

  // Through `mark`; what there is when the stream ends before it.
  std::string read_until(std::string_view mark) {
    std::size_t end;
    while ((end = input_.find(mark)) == std::string::npos)
      if (!read_more()) return std::exchange(input_, {});
    return take(end + mark.size());
  }
  std::string read_exactly(std::size_t bytes) {
    while (input_.size() < bytes)
      if (!read_more()) return std::exchange(input_, {});
    return take(bytes);
  }
  std::string read_to_end() {
    while (read_more()) {
    }
    return std::exchange(input_, {});
  }
  // Reads to the end and tells how it came.
  Ending ending() {
    read_to_end();
    return ending_;
  }
  // True when nothing is there to be read at this moment.
  bool is_quiet() {
    pollfd poll_fd{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    return input_.empty() && poll(&poll_fd, 1, 0) == 0;
  }

  // A head without the Date field, which no test can know.
  std::string read_head() {
    std::string head = read_until("\r\n\r\n");
    const std::size_t date = head.find("Date: ");
    if (date != std::string::npos) head.erase(date, head.find("\r\n", date) + 2 - date);
    return head;
  }
  // One whole answer as it stands on the wire, Date left out; `method` is that of the request.
  std::string read_answer(std::string_view method = "GET") {
    constexpr std::string_view kLength = "Content-Length: ";
    std::string answer = read_head();
    const std::size_t length = answer.find(kLength);
    if (method == "HEAD") return answer;
    if (answer.contains("Transfer-Encoding: chunked")) return answer + read_until("0\r\n\r\n");
    if (length != std::string::npos)
      answer += read_exactly(std::stoul(answer.substr(length + kLength.size())));
    return answer;
  }

 private:
  bool read_more() {
    char piece[16 * 1024];
    const ssize_t got = recv(socket_.get(), piece, sizeof piece, 0);
    if (got > 0) {
      input_.append(piece, static_cast<std::size_t>(got));
      return true;
    }
    ending_ = got == 0 ? Ending::kClosed : errno == EAGAIN ? Ending::kStillOpen : Ending::kReset;
    return false;
  }
  std::string take(std::size_t bytes) {
    std::string taken = input_.substr(0, bytes);
    input_.erase(0, bytes);
    return taken;
  }

  linux::UniqueFd socket_;
  std::string input_;
  Ending ending_ = Ending::kStillOpen;
};

// A listening socket whose connections the test answers by hand.
class TextListener {
 public:
  TextListener() : listener_(std::move(*linux::listen_tcp("127.0.0.1", 0))) {}
  std::uint16_t port() const { return port_of(listener_.get()); }
  // Waits for the next connection.
  TextPeer accept() {
    pollfd poll_fd{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    poll(&poll_fd, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
    linux::UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(socket) << "nobody connected";
    return TextPeer(std::move(socket));
  }
  bool has_waiting() const {
    pollfd poll_fd{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    return poll(&poll_fd, 1, 0) == 1;
  }
  static std::uint16_t port_of(int socket) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);  // sin6_port lies there too
  }

 private:
  linux::UniqueFd listener_;
};

class TempDir {
 public:
  TempDir() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  TempDir(const TempDir&) = delete;
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "pons-http-XXXXXX";
};

// A Server on 127.0.0.1 that lives on a LoopThread.
class ServerTest : public ::testing::Test {
 protected:
  ~ServerTest() override { stop(); }

  // Cancels what runs. For fixtures whose members handlers use: call it first in the destructor.
  void stop() {
    thread_.call([this] { server_.reset(); });
  }

  void serve(Handler handler, ServerLimits limits = {}, std::shared_ptr<TlsContext> tls = nullptr) {
    port_ = thread_.call([&] {
      server_ = std::make_unique<Server>(thread_.loop(), limits, std::move(handler));
      return listen(std::move(tls));
    });
  }
  // One more listener, and its port. On the loop's thread.
  std::uint16_t listen(std::shared_ptr<TlsContext> tls, const std::string& address = "127.0.0.1") {
    linux::UniqueFd listener = std::move(*linux::listen_tcp(address, 0));
    const std::uint16_t port = TextListener::port_of(listener.get());
    expect_ok(server_->listen(std::move(listener), "public", std::move(tls)));
    return port;
  }
  TextPeer dial() { return TextPeer::connect_tcp(port_); }
  bool eventually_has_connections(std::size_t count) {
    return thread_.eventually([this, count] { return server_->connection_count() == count; });
  }

  LoopThread thread_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
};

}  // namespace pons::http
