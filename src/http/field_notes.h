#pragma once

#include <cstdint>
#include <string_view>

#include "pons/http/head.h"

namespace pons::http {

// Why a message is refused; status 0 means that it is not.
struct Refusal {
  int status = 0;
  const char* reason = "";
  explicit operator bool() const { return status != 0; }
};

// Collects, in the one pass over the fields, what decides about host, framing and connection, and
// judges it when the head is complete: a verdict that does not depend on the order of fields.
class FieldNotes {
 public:
  void add(const Field& field);
  // Set what the notes decide in `out`, whose start line is already read.
  Refusal settle_request(RequestHead& out) const;
  Refusal settle_response(std::string_view request_method, ResponseHead& out) const;

 private:
  // A field that may stand there once.
  struct Single {
    std::string_view value;
    std::uint32_t count = 0;
    void add(std::string_view seen) {
      value = seen;
      ++count;
    }
  };

  void add_connection(std::string_view list);
  Refusal settle_host(RequestHead& out) const;
  Refusal settle_framing(Head& out) const;
  void settle_connection(Head& out) const;

  Single host_;
  Single content_length_;
  Single transfer_encoding_;
  bool close_ = false;
  bool keep_alive_ = false;
  bool upgrade_option_ = false;
  bool upgrade_field_ = false;
  bool malformed_connection_ = false;
  bool expect_continue_ = false;
  bool unknown_expectation_ = false;
};

}  // namespace pons::http
