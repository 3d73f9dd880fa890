#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/http/client.h"
#include "pons/linux/loop.h"

namespace pons::cli {

// Where a Pons is reached that may run on another machine.
struct ServerUrl {
  bool is_encrypted = false;
  std::string host;  // without brackets
  std::uint16_t port = 0;
  std::string authority;  // as it stands in Host
  std::string path;
};

// "http://HOST[:PORT][/PATH]" or https; `usual_path` where none is given.
Result<ServerUrl> read_server_url(std::string_view text, std::string_view usual_path);

// Its name is looked up here, once; certificates are checked against the system's authorities, or
// those that SSL_CERT_FILE names.
Result<http::Connector> connector_to(linux::Loop& loop, const ServerUrl& url);

}  // namespace pons::cli
