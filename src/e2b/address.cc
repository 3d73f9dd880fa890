#include "address.h"

#include <algorithm>

#include "pons/base/id.h"
#include "pons/base/text.h"
#include "query.h"

namespace pons::e2b {

namespace {

constexpr std::size_t kIdBytesMax = 64;
constexpr std::uint64_t kPortMax = 65'535;
constexpr char kIdMark = 'i';
constexpr std::size_t kIdRandomBytes = 20;

bool is_sandbox_id(std::string_view text) {
  return !text.empty() && text.size() <= kIdBytesMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

bool is_made_here(std::string_view id) {
  return id.size() == 1 + kIdRandomBytes && id.front() == kIdMark &&
         id.find('-') == std::string_view::npos;
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
  if (host.ends_with('.')) host.remove_suffix(1);
  if (host.size() < domain.size() + 2) return {};
  const std::size_t dot = domain.empty() ? host.find('.') : host.size() - domain.size() - 1;
  if (dot == std::string_view::npos || host[dot] != '.') return {};
  if (!domain.empty() && !equal_ignoring_case(host.substr(dot + 1), domain)) return {};
  std::string label(host.substr(0, dot));
  std::ranges::transform(label, label.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return label;
}

// Readers would not agree on which one counts.
bool stands_twice(const http::RequestHead& head, std::string_view name) {
  return std::ranges::count_if(head.fields, [&](const http::Field& field) {
           return equal_ignoring_case(field.name, name);
         }) > 1;
}

std::optional<Address> address_of_host(const http::RequestHead& head, std::string_view domain) {
  const std::string label = first_label(head.host, domain);
  const std::size_t dash = label.find('-');
  if (dash == std::string::npos) return std::nullopt;
  const std::string_view id = std::string_view(label).substr(dash + 1);
  if (domain.empty() && !is_made_here(id)) return std::nullopt;
  return make_address(id, std::string_view(label).substr(0, dash));
}

}  // namespace

std::string make_sandbox_id() {
  return kIdMark + random_text(kIdRandomBytes);
}

Result<std::optional<Address>> find_address(const http::RequestHead& head,
                                            std::string_view domain) {
  const auto wrong = [](const char* why) {
    return make_error(ErrorCode::kInvalid, "find sandbox", why);
  };
  auto by_host = address_of_host(head, domain);
  const auto id = head.find("E2b-Sandbox-Id");
  if (!id) return by_host;
  if (stands_twice(head, "E2b-Sandbox-Id") || stands_twice(head, "E2b-Sandbox-Port"))
    return wrong("E2b-Sandbox-Id and E2b-Sandbox-Port stand once");
  auto address = make_address(*id, head.find("E2b-Sandbox-Port").value_or("49983"));
  if (!address) return wrong("E2b-Sandbox-Id and E2b-Sandbox-Port name no sandbox and port");
  if (by_host && (by_host->sandbox != address->sandbox || by_host->port != address->port))
    return wrong("its host and its fields name different sandboxes or ports");
  return address;
}

bool is_nameless_file(const http::RequestHead& head) {
  return head.path() == "/files" &&
         (head.find("X-Access-Token") || query_value(head.query(), "signature"));
}

}  // namespace pons::e2b
