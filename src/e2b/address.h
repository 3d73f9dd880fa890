#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/http/head.h"

namespace pons::e2b {

inline constexpr std::uint16_t kEnvdPort = 49983;  // where files and processes are served

struct Address {
  std::string sandbox;
  std::uint16_t port = kEnvdPort;
};

// A new sandbox's: letters and digits only, as a part of a host name.
std::string make_sandbox_id();

// Which sandbox and port a request names: by its E2b-Sandbox fields, else by its host,
// "PORT-ID.domain". Without a domain of its own the server has any: the SDKs make one up where they
// are told none, and an id of ours is no accident. Nothing when it names none; kInvalid when it
// does so badly.
Result<std::optional<Address>> find_address(const http::RequestHead& head, std::string_view domain);

// A file of some sandbox whose token or signature comes along in place of its name.
bool is_nameless_file(const http::RequestHead& head);

}  // namespace pons::e2b
