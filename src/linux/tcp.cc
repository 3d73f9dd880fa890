#include "pons/linux/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/linux/process.h"

namespace pons::linux {
namespace {

constexpr std::size_t kSocketTableBytesMax = 16 << 20;
constexpr std::string_view kStateListen = "0A";

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Result<Address> parse_address(const std::string& text, std::uint16_t port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof *v4;
  } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.size = sizeof *v6;
  } else {
    return make_error(ErrorCode::kInvalid, "listen",
                      text + " is not a numeric IPv4 or IPv6 address");
  }
  return address;
}

// The links to look for in /proc/*/fd: "socket:[inode]" of each listener on the port.
std::vector<std::string> listener_links(std::string_view table, std::uint16_t port) {
  std::vector<std::string> links;
  for (const std::string_view line : split(table, '\n')) {
    std::vector<std::string_view> fields;
    for (const std::string_view field : split(line, ' ')) {
      if (!field.empty()) fields.push_back(field);
    }
    // number, local address:port, remote, state, queues, timer, retransmits, uid, timeout, inode
    if (fields.size() < 10 || fields[3] != kStateListen) continue;
    const auto colon = fields[1].rfind(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view hex = fields[1].substr(colon + 1);
    unsigned local_port = 0;
    std::from_chars(hex.data(), hex.data() + hex.size(), local_port, 16);
    if (local_port == port) links.push_back(fmt::format("socket:[{}]", fields[9]));
  }
  return links;
}

bool holds_one_of(const std::filesystem::path& process, const std::vector<std::string>& links) {
  std::error_code error;
  auto entry = std::filesystem::directory_iterator(process / "fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry->path(), gone);
    if (!gone && std::ranges::find(links, target.native()) != links.end()) return true;
  }
  return false;
}

}  // namespace

Result<UniqueFd> listen_tcp(const std::string& address, std::uint16_t port, int backlog) {
  const Address parsed = TRY(parse_address(address, port));
  const int family = parsed.storage.ss_family;
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return os_error("create tcp socket", address);
  const int on = 1;
  // Connections of a former run linger in TIME_WAIT and must not keep the port from us.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    return os_error("set socket option", address);
  if (family == AF_INET6 && setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0)
    return os_error("set socket option", address);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&parsed.storage), parsed.size) != 0 ||
      listen(fd.get(), backlog) != 0) {
    Error error = os_error("listen", fmt::format("{} port {}", address, port));
    if (error.os_error == EADDRINUSE) {
      if (const std::string owner = find_listener_owner(port); !owner.empty())
        error.message += " is held by " + owner;
    }
    return error;
  }
  return fd;
}

std::string find_listener_owner(std::uint16_t port) {
  std::vector<std::string> links;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (const auto table = read_file(path, kSocketTableBytesMax)) {
      for (std::string& link : listener_links(*table, port)) links.push_back(std::move(link));
    }
  }
  if (links.empty()) return {};
  std::error_code error;
  auto entry = std::filesystem::directory_iterator("/proc", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const auto pid = parse_decimal(entry->path().filename().native());
    if (pid && holds_one_of(entry->path(), links))
      return fmt::format("{} (pid {})", process_name(static_cast<pid_t>(*pid)), *pid);
  }
  return {};
}

}  // namespace pons::linux
