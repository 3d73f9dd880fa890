#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The greeting of a TLS client, read without answering it: whom it wants to reach and what it
// speaks. Whatever two readers could read differently is refused, since the server behind may be
// the other reader.

namespace pons::http {

// A greeting with post-quantum keys has about 1.8 KB, one that resumes a session about 2 KB more.
inline constexpr std::size_t kClientHelloBytesMax = 16 * 1024;

struct ClientHello {
  // As it was sent: no NUL and at most 255 bytes, but not checked to be a name.
  std::optional<std::string> server_name;
  std::vector<std::string> protocols;   // ALPN, in the client's order
  std::vector<std::uint16_t> versions;  // as offered, reserved (GREASE) values included
  // The name that counts may be another one, encrypted. Browsers also send this without meaning it.
  bool has_encrypted_hello = false;
  std::size_t bytes = 0;  // how many of the buffer are the greeting; early data may follow
};

struct ClientHelloNeedsMore {};

struct ClientHelloRefused {
  const char* reason = "";  // static text
};

using ClientHelloOutcome = std::variant<ClientHelloNeedsMore, ClientHello, ClientHelloRefused>;

// `buffer` is all that came from the client so far. Refuses as early as it can; a buffer of
// kClientHelloBytesMax never needs more.
ClientHelloOutcome parse_client_hello(std::string_view buffer);

}  // namespace pons::http
