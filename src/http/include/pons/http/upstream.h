#pragma once

#include <memory>
#include <string_view>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/client.h"
#include "pons/http/http2.h"

// One face for a server that is reached over HTTP/1.1 or HTTP/2, so that a relay need not care.
namespace pons::http {

// An answer whose body is still to be read. Dropping it before the end gives the answer up.
class UpstreamAnswer {
 public:
  virtual ~UpstreamAnswer() = default;
  // kChunked stands for any body of unknown length.
  virtual const ResponseHead& head() const = 0;
  // The next piece, empty at the end; valid until the next call. A body cut short is an error.
  virtual Task<Result<std::string_view>> read_body() = 0;
  // The same without waiting: empty when nothing is here yet, or nothing is known of it.
  virtual Result<std::string_view> take_ready_body() { return std::string_view(); }
  // Fields behind the body, after its end. HTTP/1.1 drops them.
  virtual const OwnedFields& trailers() const = 0;

  int status() const { return head().status; }
};

class UpstreamLink {
 public:
  virtual ~UpstreamLink() = default;
  // The answer's head. What `request` refers to must live until the answer is dropped.
  virtual Task<Result<std::unique_ptr<UpstreamAnswer>>> send(ClientRequest request) = 0;
  // False when a new link is needed for the next request.
  virtual bool is_usable() const = 0;
};

// Both must outlive their answers. The first connects when it has something to send, and again when
// it has to.
std::unique_ptr<UpstreamLink> link_over_http1(linux::Loop& loop, Connector connector,
                                              std::string host, ClientLimits limits = {});
std::unique_ptr<UpstreamLink> link_over_http2(linux::Loop& loop,
                                              std::unique_ptr<Transport> transport,
                                              std::string host, std::string scheme = "https",
                                              Http2Limits limits = Http2Limits::for_client());

}  // namespace pons::http
