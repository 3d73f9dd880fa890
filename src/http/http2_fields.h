#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "field_notes.h"
#include "pons/http/client.h"
#include "pons/http/exchange.h"
#include "pons/http/head.h"

namespace pons::http {

// The fields of one HEADERS frame as they arrive, all in one string.
class FieldBlock {
 public:
  // False when it breaks a limit; nothing is kept then.
  bool add(std::string_view name, std::string_view value, const HeadLimits& limits);
  // Views that live until the next change.
  std::vector<Field> fields() const;
  OwnedFields copy() const;
  std::size_t bytes() const { return text_.size(); }
  void clear();

 private:
  struct Size {
    std::uint32_t name;
    std::uint32_t value;
  };
  std::string text_;
  std::vector<Size> sizes_;
};

// Fields to be sent; what the names and values point to must live until nghttp2 has them.
class FieldsToSend {
 public:
  void add(std::string_view name, std::string_view value);
  // Lower-cases the name.
  void add_lowered(const std::string& name, const std::string& value);
  const nghttp2_nv* data() const { return list_.data(); }
  std::size_t size() const { return list_.size(); }

 private:
  std::vector<nghttp2_nv> list_;
  std::vector<std::unique_ptr<std::string>> lowered_;
};

// Fields that speak about one HTTP/1.1 connection. They have no place in HTTP/2 (RFC 9113, 8.2.2).
bool is_connection_specific(std::string_view name);

// Judges what nghttp2 does not. `out` points into `block` afterwards.
Refusal settle_http2_request(const FieldBlock& block, std::string_view scheme,
                             const HeadLimits& limits, bool is_whole, RequestHead& out);
Refusal settle_http2_response(const FieldBlock& block, std::string_view request_method,
                              bool is_whole, ResponseHead& out);
// Trailers cannot change what a message is or where it goes.
bool are_trailers_legal(const OwnedFields& trailers);

// Refuses what cannot be sent. What `out` holds points into the other arguments and `length`.
Result<void> list_request_fields(const ClientRequest& request, std::string_view host,
                                 std::string_view scheme, std::string& length, FieldsToSend& out);

// "Sun, 06 Nov 1994 08:49:37 GMT", for now.
std::string http_date();

}  // namespace pons::http
