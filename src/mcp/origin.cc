#include "pons/mcp/origin.h"

#include "pons/base/text.h"

namespace pons::mcp {

namespace {

// Without its scheme and its port; empty when it is no origin of a page.
std::string_view host_of(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return {};
  if (origin.substr(0, scheme) != "http" && origin.substr(0, scheme) != "https") return {};
  std::string_view rest = origin.substr(scheme + 3);
  if (rest.find_first_of("/@?#") != std::string_view::npos) return {};
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    return end == std::string_view::npos ? std::string_view() : rest.substr(0, end + 1);
  }
  return rest.substr(0, rest.find(':'));
}

}  // namespace

bool is_own_origin(std::string_view origin, std::string_view domain) {
  const std::string_view host = host_of(origin);
  for (const std::string_view local : {"localhost", "127.0.0.1", "[::1]"})
    if (equal_ignoring_case(host, local)) return true;
  if (domain.empty()) return false;
  constexpr std::string_view kApi = "api.";
  if (equal_ignoring_case(host, domain)) return true;
  return host.size() == kApi.size() + domain.size() &&
         equal_ignoring_case(host.substr(0, kApi.size()), kApi) &&
         equal_ignoring_case(host.substr(kApi.size()), domain);
}

}  // namespace pons::mcp
