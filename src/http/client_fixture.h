#pragma once

// For tests of the client: one before a server that the test plays by hand, byte for byte.

#include "http_fixture.h"
#include "pons/http/client.h"

namespace pons::http {

struct Fetched {
  int status = 0;
  std::string body;
};

inline Task<Result<Fetched>> fetch(Client& client, ClientRequest request) {
  CO_TRY(ClientResponse response, co_await client.send(std::move(request)));
  CO_TRY(std::string body, co_await response.read_whole_body(64 << 20));
  co_return Fetched{response.status(), std::move(body)};
}

class ClientTest : public ::testing::Test {
 protected:
  ~ClientTest() override {
    thread_.call([this] { client_.reset(); });
  }
  void connect_with(Connector connector, ClientLimits limits = {}) {
    thread_.call([&] {
      client_ = std::make_unique<Client>(thread_.loop(), std::move(connector), "origin", limits);
    });
  }
  void use(ClientLimits limits = {}) {
    connect_with(tcp_connector(thread_.loop(), "127.0.0.1", origin_.port()), limits);
  }
  std::future<Result<Fetched>> begin(ClientRequest request = {}) {
    return thread_.start([&] { return fetch(*client_, std::move(request)); });
  }
  // The code of the error it must end with.
  ErrorCode failure(std::future<Result<Fetched>> running) {
    const auto fetched = thread_.finish(std::move(running));
    EXPECT_FALSE(fetched.has_value()) << "got an answer";
    return fetched ? ErrorCode::kInternal : fetched.error().code;
  }
  std::string body_of(std::future<Result<Fetched>> running) {
    const auto fetched = thread_.finish(std::move(running));
    EXPECT_TRUE(fetched.has_value()) << fetched.error().describe();
    return fetched ? fetched->body : "";
  }
  // One request whose answer is `answer`, after which the server closes.
  std::future<Result<Fetched>> exchange(std::string_view answer, ClientRequest request = {}) {
    auto running = begin(std::move(request));
    TextPeer server = origin_.accept();
    server.read_until("\r\n\r\n");
    server.send(answer);
    return running;
  }

  LoopThread thread_;
  TextListener origin_;
  std::unique_ptr<Client> client_;
};

}  // namespace pons::http
