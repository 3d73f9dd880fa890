#pragma once

#include <memory>
#include <string>

#include "pons/http/chunked.h"
#include "pons/http/client.h"

namespace pons::http {

// One connection of a Client and the answer that is being read from it.
class ClientConnection {
 public:
  ClientConnection(linux::Loop& loop, std::unique_ptr<Transport> transport,
                   const ClientLimits& limits);

  Task<Result<void>> send(const ClientRequest& request, const std::string& host);
  Task<Result<void>> read_head(std::string method);
  Task<Result<std::string_view>> read_body();
  // The next piece as far as it is here already; empty when there is nothing to be had at once.
  Result<std::string_view> take_ready_body();

  const ResponseHead& head() const { return head_; }
  bool reusable() const {
    return request_sent_ && body_done_ && !broken_ && head_.keep_alive && begin_ == end_;
  }
  // A kept connection that became readable has been closed by the server, or lies.
  bool is_still_quiet();
  bool answer_begun() const { return answer_begun_; }
  void mark_reused() { reused_ = true; }
  bool reused() const { return reused_; }

  // For an upgrade: the socket and what was read past the head.
  std::unique_ptr<Transport> release_transport() { return std::move(transport_); }
  std::string take_leftover() { return std::string(unread()); }

 private:
  Task<Result<void>> send_body(const ClientRequest& request);
  Task<Result<void>> send_end(const ClientRequest& request);
  Task<Result<std::size_t>> fill(TimePoint deadline);
  std::string_view unread() const {
    return std::string_view(buffer_).substr(begin_, end_ - begin_);
  }

  linux::Loop& loop_;
  std::unique_ptr<Transport> transport_;
  const ClientLimits& limits_;
  std::string buffer_;     // the head stays at its front while the body passes behind it
  std::size_t floor_ = 0;  // end of the head
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  ResponseHead head_;
  ChunkedDecoder chunks_;
  std::uint64_t body_left_ = 0;
  bool body_done_ = true;
  bool broken_ = false;
  bool request_sent_ = false;
  bool answer_begun_ = false;
  bool reused_ = false;
};

}  // namespace pons::http
