#include "address.h"

#include <algorithm>

#include "pons/base/text.h"
#include "query.h"

namespace pons::e2b {

namespace {

constexpr std::size_t kIdBytesMax = 64;
constexpr std::uint64_t kPortMax = 65'535;

bool is_sandbox_id(std::string_view text) {
  return !text.empty() && text.size() <= kIdBytesMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::optional<Address> make_address(std::string_view id, std::string_view port) {
  const auto number = parse_decimal(port);
  if (!is_sandbox_id(id) || !number || *number == 0 || *number > kPortMax) return std::nullopt;
  return Address{std::string(id), static_cast<std::uint16_t>(*number)};
}

std::string_view without_port(std::string_view host) {
  return host.substr(0, host.rfind(':'));
}

// "8080-id" of "8080-id.domain"; empty when it is another host. What the domain says of a port is
// compared, what it leaves open may be any.
std::string first_label(std::string_view host, std::string_view domain) {
  if (domain.find(':') == std::string_view::npos) host = without_port(host);
  if (domain.empty() || host.size() < domain.size() + 2) return {};
  const std::size_t dot = host.size() - domain.size() - 1;
  if (host[dot] != '.' || !equal_ignoring_case(host.substr(dot + 1), domain)) return {};
  std::string label(host.substr(0, dot));
  std::ranges::transform(label, label.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return label;
}

}  // namespace

Result<std::optional<Address>> find_address(const http::RequestHead& head,
                                            std::string_view domain) {
  using Found = std::optional<Address>;
  if (const auto id = head.find("E2b-Sandbox-Id")) {
    const auto port = head.find("E2b-Sandbox-Port").value_or("49983");
    if (auto address = make_address(*id, port)) return Found(std::move(address));
    return make_error(ErrorCode::kInvalid, "find sandbox",
                      "E2b-Sandbox-Id and E2b-Sandbox-Port name no sandbox and port");
  }
  const std::string label = first_label(head.host, domain);
  const std::size_t dash = label.find('-');
  if (dash == std::string::npos) return Found();
  return Found(make_address(std::string_view(label).substr(dash + 1),
                            std::string_view(label).substr(0, dash)));
}

bool is_nameless_file(const http::RequestHead& head) {
  return head.path() == "/files" &&
         (head.find("X-Access-Token") || query_value(head.query(), "signature"));
}

}  // namespace pons::e2b
