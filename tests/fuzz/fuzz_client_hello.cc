// The first byte says how the stream is cut; the rest is the stream. Holds: the cut changes
// nothing, what is read keeps its promises, and OpenSSL reads the same name and protocols.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

#include "pons/base/check.h"
#include "pons/http/client_hello.h"

namespace {

using namespace pons::http;

struct Seen {
  bool called = false;
  std::optional<std::string> server_name;
  std::optional<std::string> protocols;
};

int note_greeting(SSL* ssl, int*, void* argument) {
  const auto raw = [ssl](unsigned kind) -> std::optional<std::string> {
    const unsigned char* bytes = nullptr;
    std::size_t size = 0;
    if (SSL_client_hello_get0_ext(ssl, kind, &bytes, &size) != 1) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(bytes), size);
  };
  *static_cast<Seen*>(argument) = {true, raw(0), raw(16)};
  return SSL_CLIENT_HELLO_ERROR;
}

Seen ask_openssl(std::string_view bytes) {
  static SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  Seen seen;
  SSL_CTX_set_client_hello_cb(context, note_greeting, &seen);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context), SSL_free);
  BIO* in = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), in, BIO_new(BIO_s_mem()));
  BIO_write(in, bytes.data(), static_cast<int>(bytes.size()));
  SSL_accept(ssl.get());
  return seen;
}

// As the extension carries it.
std::string encode(std::string_view entries) {
  return std::string{static_cast<char>(entries.size() >> 8), static_cast<char>(entries.size())} +
         std::string(entries);
}

void check_hello(const ClientHello& hello, std::string_view stream) {
  CHECK(hello.bytes <= stream.size() && hello.bytes <= kClientHelloBytesMax);
  CHECK(!hello.versions.empty());
  CHECK(!hello.server_name || (!hello.server_name->empty() && hello.server_name->size() <= 255 &&
                               !hello.server_name->contains('\0')));
  const Seen seen = ask_openssl(stream.substr(0, hello.bytes));
  if (!seen.called) return;  // OpenSSL has reasons of its own to refuse
  CHECK(hello.server_name.has_value() == seen.server_name.has_value());
  if (hello.server_name)
    CHECK(encode(std::string(1, '\0') + encode(*hello.server_name)) == *seen.server_name);
  std::string protocols;
  for (const auto& name : hello.protocols) {
    CHECK(!name.empty());
    protocols += static_cast<char>(name.size());
    protocols += name;
  }
  CHECK(hello.protocols.empty() ? !seen.protocols.has_value()
                                : encode(protocols) == seen.protocols);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto whole = parse_client_hello(stream);
  if (const auto* hello = std::get_if<ClientHello>(&whole)) check_hello(*hello, stream);
  CHECK(stream.size() < kClientHelloBytesMax ||
        !std::holds_alternative<ClientHelloNeedsMore>(whole));

  const std::size_t step = 1 + data[0];
  for (std::size_t end = 0; end < stream.size(); end += step) {
    // A copy of its own size, so that the sanitizer sees a read past it.
    const std::string piece(stream.substr(0, end));
    const auto part = parse_client_hello(piece);
    if (std::holds_alternative<ClientHelloNeedsMore>(part)) continue;
    CHECK(part.index() == whole.index());
    if (const auto* hello = std::get_if<ClientHello>(&part))
      CHECK(hello->server_name == std::get<ClientHello>(whole).server_name &&
            hello->bytes == std::get<ClientHello>(whole).bytes);
    break;
  }
  return 0;
}
