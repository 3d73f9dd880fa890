#pragma once

// For tests of this folder: the relay of one HTTP/1.1 connection, spoken to in plain text, and the
// host behind it.

#include <sys/socket.h>

#include <string>

#include "boundary_fixture.h"
#include "pons/http/server.h"
#include "relay.h"

namespace pons::egress {

class RawRelayTest : public BoundaryTest {
 protected:
  std::pair<std::unique_ptr<http::Transport>, std::unique_ptr<http::Transport>> make_line() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    return {*http::create_plain_transport(*loop_, linux::UniqueFd(ends[0])),
            *http::create_plain_transport(*loop_, linux::UniqueFd(ends[1]))};
  }

  // What a client gets that sends this, for all of it. The host gets what the relay sends, up to
  // the end of the body, and answers `host_answer`; without one there is no host. Without an origin
  // the relay is a proxy.
  std::string converse(const std::string& sent, std::optional<Origin> to,
                       const std::string& host_answer = {}) {
    auto [client, relay_end] = make_line();
    auto [to_host, host_end] = make_line();
    host_got_.clear();
    std::string answer;
    linux::TaskGroup tasks(*loop_);
    if (host_answer.empty()) to_host.reset();
    Relay relay(*boundary_, sandbox_, std::move(to), std::move(to_host));
    http::Server server(*loop_, {},
                        [&relay](http::Exchange& exchange) { return relay.handle(exchange); });
    tasks.spawn(server.serve_here(std::move(relay_end), {.role = "sandbox"}));
    if (!host_answer.empty()) tasks.spawn(be_host(*host_end, host_answer));
    tasks.spawn(be_client(*client, sent, answer));
    loop_->run();
    tasks.cancel_all();
    return answer;
  }

  std::string host_got_;

 private:
  static bool is_whole(std::string_view message) {
    const std::size_t head = message.find("\r\n\r\n");
    if (head == std::string_view::npos) return false;
    const std::size_t length = message.find("Content-Length: ");
    if (length < head)
      return message.size() >= head + 4 + std::stoul(std::string(message.substr(length + 16, 8)));
    if (message.find("chunked") < head)
      return message.ends_with("\r\n\r\n") && message.find("\r\n0\r\n") != std::string_view::npos;
    return true;
  }

  Task<> be_host(http::Transport& line, std::string answer) {
    char piece[4096];
    while (!is_whole(host_got_)) {
      const auto got = co_await http::read_some(line, piece, kNever);
      if (!got || *got == 0) co_return;
      host_got_.append(piece, *got);
    }
    iovec out = http::to_iovec(answer);
    (void)co_await http::write_all(line, {&out, 1}, std::chrono::seconds(10));
    co_await loop_->sleep_until(kNever);
  }

  Task<> be_client(http::Transport& line, std::string text, std::string& answer) {
    co_await loop_->next_round();  // so that run() is there to be stopped
    iovec out = http::to_iovec(text);
    (void)co_await http::write_all(line, {&out, 1}, std::chrono::seconds(10));
    char piece[4096];
    for (;;) {
      const auto got = co_await http::read_some(line, piece, kNever);
      if (!got || *got == 0) break;
      answer.append(piece, *got);
    }
    loop_->stop();
  }
};

}  // namespace pons::egress
