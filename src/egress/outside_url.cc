#include "outside_url.h"

#include "pons/base/text.h"

namespace pons::egress {

Result<OutsideUrl> parse_outside_url(std::string_view url) {
  const auto wrong = [] {
    return make_error(ErrorCode::kInvalid, "read URL", "write it as https://host/path");
  };
  bool tls = true;
  if (url.starts_with("http://")) {
    tls = false;
    url.remove_prefix(7);
  } else if (url.starts_with("https://")) {
    url.remove_prefix(8);
  } else {
    return wrong();
  }
  const std::size_t slash = std::min(url.find_first_of("/?#"), url.size());
  std::string_view authority = url.substr(0, slash);
  std::string written(authority);
  std::string target(url.substr(slash, url.find('#', slash) - slash));
  if (!target.starts_with('/')) target.insert(0, "/");
  std::uint16_t port = tls ? 443 : 80;
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && authority.find(']', colon) == std::string_view::npos) {
    const auto number = parse_decimal(authority.substr(colon + 1));
    if (!number || *number == 0 || *number > 65'535) return wrong();
    port = static_cast<std::uint16_t>(*number);
    authority = authority.substr(0, colon);
  }
  const Destination host = TRY(parse_destination(authority));
  return OutsideUrl{{host, port, tls}, std::move(written), std::move(target)};
}

}  // namespace pons::egress
