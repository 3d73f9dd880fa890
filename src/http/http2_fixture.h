#pragma once

// For tests of HTTP/2: our two ends on one loop, and a peer that writes frames by hand.

#include <sys/socket.h>

#include <atomic>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http_fixture.h"
#include "pons/http/http2.h"

namespace pons::http {

inline constexpr std::string_view kMagic = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum FrameType : std::uint8_t {
  kData,
  kHeaders,
  kPriority,
  kRstStream,
  kSettings,
  kPushPromise,
  kPing,
  kGoaway,
  kWindowUpdate,
  kContinuation
};
enum FrameFlag : std::uint8_t {
  kNoFlag = 0,
  kEndStream = 1,
  kAck = 1,
  kEndHeaders = 4,
  kPadded = 8
};

inline std::string number(std::uint32_t value, int bytes = 4) {
  std::string text;
  while (bytes-- > 0) text += static_cast<char>(value >> (8 * bytes));
  return text;
}
inline std::uint32_t number_in(std::string_view text) {
  std::uint32_t value = 0;
  for (const char c : text) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

inline std::string frame(FrameType type, int flags, std::uint32_t stream,
                         std::string_view payload = {}) {
  return number(static_cast<std::uint32_t>(payload.size()), 3) + static_cast<char>(type) +
         static_cast<char>(flags) + number(stream) + std::string(payload);
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

// HPACK without table and Huffman: what stands there is what is sent, legal or not.
inline std::string hpack(const Pairs& fields) {
  const auto length = [](std::size_t size) {
    if (size < 127) return std::string(1, static_cast<char>(size));
    std::string text = "\x7f";
    for (size -= 127; size >= 128; size /= 128) text += static_cast<char>(size % 128 + 128);
    return text + static_cast<char>(size);
  };
  std::string block;
  for (const auto& [name, value] : fields)
    block += '\0' + length(name.size()) + name + length(value.size()) + value;
  return block;
}

inline Pairs request_fields(Pairs more = {}) {
  Pairs fields = {
      {":method", "GET"}, {":scheme", "http"}, {":authority", "a.test"}, {":path", "/"}};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

struct Frame {
  std::uint8_t type = 255;  // none: the stream has ended
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;
  std::string payload;
};

// A peer that speaks in frames.
class FramePeer : public TextPeer {
 public:
  using TextPeer::TextPeer;
  void greet() { send(std::string(kMagic) + frame(kSettings, 0, 0)); }
  void send_request(std::uint32_t stream, const Pairs& fields,
                    int flags = kEndHeaders | kEndStream) {
    send(frame(kHeaders, flags, stream, hpack(fields)));
  }
  Frame read_frame() {
    const std::string head = read_exactly(9);
    if (head.size() < 9) return {};
    return {.type = static_cast<std::uint8_t>(head[3]),
            .flags = static_cast<std::uint8_t>(head[4]),
            .stream = number_in(std::string_view(head).substr(5, 4)),
            .payload = read_exactly(number_in(std::string_view(head).substr(0, 3)))};
  }
  // The next one of a type; type 255 when the stream ends first.
  Frame read_frame(FrameType type) {
    for (;;) {
      Frame next = read_frame();
      if (next.type == type || next.type == 255) return next;
    }
  }
  // The code of the RST_STREAM or GOAWAY that comes next; -1 when an answer or the end comes first.
  int read_refusal() {
    for (;;) {
      const Frame next = read_frame();
      if (next.type == kRstStream) return static_cast<int>(number_in(next.payload));
      if (next.type == kGoaway)
        return static_cast<int>(number_in(std::string_view(next.payload).substr(4, 4)));
      if (next.type == kHeaders || next.type == 255) return -1;
    }
  }
  // The body of an answer that has one.
  std::string read_body(std::uint32_t stream) {
    std::string body;
    for (;;) {
      const Frame next = read_frame();
      if (next.stream == stream && next.type == kData) body += next.payload;
      if (next.type == 255 || next.type == kRstStream) return body + "(cut off)";
      if (next.stream == stream && (next.type == kData || next.type == kHeaders) &&
          (next.flags & kEndStream) != 0)
        return body;
    }
  }
};

class Http2Test : public ::testing::Test {
 protected:
  ~Http2Test() override {
    thread_.call([this] {
      clients_.clear();
      connections_.reset();
    });
  }

  static std::pair<linux::UniqueFd, linux::UniqueFd> make_pair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    return {linux::UniqueFd(ends[0]), linux::UniqueFd(ends[1])};
  }
  void handle_with(Handler handler, Http2Limits limits = {}) {
    handler_ = std::move(handler);
    limits_ = limits;
  }
  // Serves one end of a new connection and gives the other.
  linux::UniqueFd dial_socket() {
    auto [ours, theirs] = make_pair();
    thread_.call([&, socket = std::make_shared<linux::UniqueFd>(std::move(ours))] {
      if (!connections_) connections_.emplace(thread_.loop());
      auto transport = create_plain_transport(thread_.loop(), std::move(*socket));
      connections_->spawn(serve_http2(thread_.loop(), std::move(*transport),
                                      Peer{.role = "sandbox", .address = {}, .descriptors = {}},
                                      limits_, handler_, "http", refuser_));
    });
    return std::move(theirs);
  }
  FramePeer dial() { return FramePeer(dial_socket()); }

  // A client of ours over `socket`.
  Http2Client& client_over(linux::UniqueFd socket, Http2Limits limits = Http2Limits::for_client()) {
    return *thread_.call([&, shared = std::make_shared<linux::UniqueFd>(std::move(socket))] {
      auto transport = create_plain_transport(thread_.loop(), std::move(*shared));
      clients_.push_back(std::make_unique<Http2Client>(thread_.loop(), std::move(*transport),
                                                       "a.test", "http", limits));
      return clients_.back().get();
    });
  }
  // Runs a coroutine on the loop to its end. It refers to its lambda, which lives here meanwhile.
  template <class Body>
  void run(Body body) {
    thread_.await([&body] { return body(); });
  }
  bool eventually_has_connections(std::size_t count) {
    return thread_.eventually([&] { return connections_->size() == count; });
  }

  LoopThread thread_;
  Handler handler_;
  Refuser refuser_;
  Http2Limits limits_;
  std::optional<linux::TaskGroup> connections_;
  std::list<std::unique_ptr<Http2Client>> clients_;
};

// Answers with what was asked.
inline Task<> echo(Exchange& exchange) {
  const auto body = co_await exchange.read_whole_body(64 * 1024 * 1024);
  if (!body) co_return exchange.respond({.status = 400, .body = body.error().describe()});
  exchange.respond({.content_type = "text/plain",
                    .body = std::string(exchange.request().method) + " " +
                            std::string(exchange.request().target) + " " + *body});
}

// Neither reads nor answers.
inline Task<> ignore(Exchange& exchange) {
  co_await exchange.loop().sleep_until(kNever);
}

inline Task<Result<std::string>> read_all(Http2Response& response) {
  std::string body;
  for (;;) {
    CO_TRY(const std::string_view piece, co_await response.read_body());
    if (piece.empty()) co_return body;
    body += piece;
  }
}

inline Task<Result<std::string>> fetch(Http2Client& client, ClientRequest request) {
  CO_TRY(auto response, co_await client.send(std::move(request)));
  co_return co_await read_all(response);
}

}  // namespace pons::http
