#pragma once

#include <string>

#include "tls_native.h"

namespace pons::http {

// What OpenSSL reads from and writes to: bytes that were read before it came, then the socket.
// Unlike OpenSSL's own, it never blocks, never raises SIGPIPE, and says whether the socket is
// empty.
struct TlsSocket {
  int fd = -1;
  std::string first_bytes;
  std::size_t first_bytes_used = 0;
  bool is_empty = false;   // the last read got less than it asked for: more raises an event
  bool must_wait = false;  // the last read got nothing
  bool is_over = false;

  // Refers to this object, which must outlive it and stay where it is.
  Result<UniqueBio> create_bio();

  int read(BIO* bio, char* into, int size);
  int write(BIO* bio, const char* from, int size) const;
};

}  // namespace pons::http
