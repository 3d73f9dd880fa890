#include "tls_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pons::http {

namespace {

TlsSocket& socket_of(BIO* bio) {
  return *static_cast<TlsSocket*>(BIO_get_data(bio));
}

int read_bio(BIO* bio, char* into, int size) {
  return socket_of(bio).read(bio, into, size);
}

int write_bio(BIO* bio, const char* from, int size) {
  return socket_of(bio).write(bio, from, size);
}

long control_bio(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return 1;
    case BIO_CTRL_EOF:
      return socket_of(bio).is_over ? 1 : 0;
    default:
      return 0;
  }
}

// Made once and never freed: OpenSSL keeps the types of its streams for the life of the process.
const BIO_METHOD* socket_method() {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (made == nullptr) return made;
    BIO_meth_set_read(made, read_bio);
    BIO_meth_set_write(made, write_bio);
    BIO_meth_set_ctrl(made, control_bio);
    return made;
  }();
  return kMethod;
}

}  // namespace

Result<UniqueBio> TlsSocket::create_bio() {
  UniqueBio bio(socket_method() != nullptr ? BIO_new(socket_method()) : nullptr);
  if (bio == nullptr) return tls_error("start TLS");
  BIO_set_data(bio.get(), this);
  BIO_set_init(bio.get(), 1);
  return bio;
}

int TlsSocket::read(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  is_empty = must_wait = false;
  if (first_bytes_used < first_bytes.size()) {
    const std::size_t taken =
        std::min(first_bytes.size() - first_bytes_used, static_cast<std::size_t>(size));
    std::memcpy(into, first_bytes.data() + first_bytes_used, taken);
    first_bytes_used += taken;
    if (first_bytes_used == first_bytes.size()) {
      first_bytes = {};
      first_bytes_used = 0;
    }
    return static_cast<int>(taken);
  }
  ssize_t got;
  do {
    got = recv(fd, into, static_cast<std::size_t>(size), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  is_empty = got < size;
  is_over = got == 0;
  if (got < 0 && errno == EAGAIN) {
    must_wait = true;
    BIO_set_retry_read(bio);
  }
  return static_cast<int>(got);
}

int TlsSocket::write(BIO* bio, const char* from, int size) const {
  BIO_clear_retry_flags(bio);
  ssize_t sent;
  do {
    sent = send(fd, from, static_cast<std::size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno == EAGAIN) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

}  // namespace pons::http
