#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kept_head.h"
#include "pons/http/chunked.h"
#include "pons/http/client.h"
#include "read_buffer.h"

namespace pons::http {

// One connection of a Client and the answer that is being read from it.
class ClientConnection {
 public:
  ClientConnection(linux::Loop& loop, std::unique_ptr<Transport> transport,
                   const ClientLimits& limits);

  Task<Result<void>> send(const ClientRequest& request, const std::string& host);
  Task<Result<void>> read_head(std::string method) {
    return read_head(std::move(method), loop_.now() + limits_.first_byte_time);
  }
  // Both at once, for a body whose end nobody knows: the answer may begin before it. Returns with
  // the answer's head; what is left of the body is sent while the answer is read.
  Task<Result<void>> converse(ClientRequest request, std::string host);
  Task<Result<std::string_view>> read_body();
  // The next piece as far as it is here already; empty when there is nothing to be had at once.
  Result<std::string_view> take_ready_body();

  const ResponseHead& head() const { return head_; }
  bool reusable() const {
    return request_sent_ && body_done_ && !broken_ && head_.keep_alive && input_.is_empty();
  }
  // A kept connection that became readable has been closed by the server, or lies.
  bool is_still_quiet();
  bool answer_begun() const { return answer_begun_; }
  // From here on until its next request it holds no memory but this.
  void be_kept() {
    reused_ = true;
    input_.rest();
    kept_head_.rest();
  }
  bool reused() const { return reused_; }

  // For an upgrade: the socket and what was read past the head.
  std::unique_ptr<Transport> release_transport() { return std::move(transport_); }
  std::string take_leftover() { return std::string(input_.unread()); }

 private:
  Task<Result<void>> send_body(const ClientRequest& request);
  Task<Result<void>> send_end(const ClientRequest& request);
  Task<Result<void>> read_head(std::string method, TimePoint first_byte_deadline);
  // The request cannot be completed, and not because the server stopped to listen.
  bool is_hopeless() const;
  Task<> send_beside(std::string host);
  Task<> read_head_beside(std::string method);
  Task<Result<std::size_t>> fill(TimePoint deadline);

  linux::Loop& loop_;
  std::unique_ptr<Transport> transport_;
  const ClientLimits& limits_;
  ReadBuffer input_;
  ResponseHead head_;
  KeptHead kept_head_;
  ChunkedDecoder chunks_;
  std::uint64_t body_left_ = 0;
  bool body_done_ = true;
  bool broken_ = false;
  bool request_sent_ = false;
  bool answer_begun_ = false;
  bool reused_ = false;
  bool source_failed_ = false;  // of the request's body

  // Of a conversation.
  struct Conversation {
    explicit Conversation(linux::Loop& loop) : news(loop), tasks(loop) {}
    ClientRequest request;
    std::optional<Result<void>> sent;
    std::optional<Result<void>> answered;
    linux::Event news;
    linux::TaskGroup tasks;  // last: they use all of the above
  };
  std::unique_ptr<Conversation> conversation_;  // last: it uses all of the above
};

}  // namespace pons::http
