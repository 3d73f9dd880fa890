#include "pons/linux/netlink.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <vector>

#include "pons/linux/namespace.h"

namespace pons::linux {
namespace {

constexpr timeval kAnswerTimeout{.tv_sec = 5, .tv_usec = 0};
constexpr std::size_t kAnswerBytesMax = 32 << 10;
constexpr std::size_t kMessageBytesMax = 1024;
constexpr int kLoopbackIndex = 1;  // in every network namespace

nlmsghdr* begin_message(std::byte* buffer, std::uint16_t type, std::uint16_t flags,
                        std::uint32_t sequence) {
  nlmsghdr* header = mnl_nlmsg_put_header(buffer);
  header->nlmsg_type = type;
  header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
  header->nlmsg_seq = sequence;
  return header;
}

Result<void> send_alone(NetlinkSocket& socket, const nlmsghdr* message, const char* step) {
  return socket.transact(
      std::as_bytes(std::span(reinterpret_cast<const char*>(message), message->nlmsg_len)),
      message->nlmsg_seq, message->nlmsg_seq, step);
}

}  // namespace

Result<NetlinkSocket> NetlinkSocket::open(int protocol) {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!fd) return os_error("open netlink socket");
  const int on = 1;
  // Refusals come without a copy of the refused message; no answer is a timeout, not a hang.
  if (setsockopt(fd.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on) != 0 ||
      setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerTimeout, sizeof kAnswerTimeout) != 0)
    return os_error("configure netlink socket");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return os_error("bind netlink socket");
  return NetlinkSocket(std::move(fd));
}

Result<NetlinkSocket> NetlinkSocket::open_in(int net_namespace_fd, int protocol) {
  Result<NetlinkSocket> opened = make_error(ErrorCode::kInternal, "open netlink socket", {});
  TRY_VOID(run_in_net_namespace(net_namespace_fd, [&]() -> Result<void> {
    opened = open(protocol);
    return {};
  }));
  return opened;
}

std::uint32_t NetlinkSocket::take_sequence(std::uint32_t count) {
  // Zero is never used: messages that the kernel sends by itself carry it.
  if (next_sequence_ > UINT32_MAX - count) next_sequence_ = 1;
  const std::uint32_t first = next_sequence_;
  next_sequence_ += count;
  return first;
}

Result<void> NetlinkSocket::transact(std::span<const std::byte> messages, std::uint32_t first,
                                     std::uint32_t last, const char* step) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (sendto(fd_.get(), messages.data(), messages.size(), 0,
             reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) < 0)
    return os_error(step);
  alignas(nlmsghdr) char answer[kAnswerBytesMax];
  for (;;) {
    sockaddr_nl sender{};
    socklen_t sender_size = sizeof sender;
    const ssize_t got = recvfrom(fd_.get(), answer, sizeof answer, 0,
                                 reinterpret_cast<sockaddr*>(&sender), &sender_size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return os_error(step, "the kernel did not answer", ETIMEDOUT);
    if (got < 0) return os_error(step);
    if (sender.nl_pid != 0) continue;  // not from the kernel
    int left = static_cast<int>(got);
    for (auto* header = reinterpret_cast<const nlmsghdr*>(answer); mnl_nlmsg_ok(header, left);
         header = mnl_nlmsg_next(header, &left)) {
      // Answers to an earlier batch that had already failed carry older numbers.
      if (header->nlmsg_seq < first || header->nlmsg_seq > last ||
          header->nlmsg_type != NLMSG_ERROR)
        continue;
      if (mnl_nlmsg_get_payload_len(header) < sizeof(nlmsgerr)) continue;
      const auto* report = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(header));
      if (report->error != 0) return os_error(step, {}, -report->error);
      if (header->nlmsg_seq == last) return {};
    }
  }
}

Result<void> bring_loopback_up(NetlinkSocket& socket) {
  alignas(nlmsghdr) std::byte buffer[kMessageBytesMax];
  nlmsghdr* message = begin_message(buffer, RTM_NEWLINK, 0, socket.take_sequence(1));
  auto* link = static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(message, sizeof(ifinfomsg)));
  link->ifi_family = AF_UNSPEC;
  link->ifi_index = kLoopbackIndex;
  link->ifi_flags = IFF_UP;
  link->ifi_change = IFF_UP;
  return send_alone(socket, message, "bring loopback up");
}

Result<void> add_local_default_route(NetlinkSocket& socket, int family) {
  alignas(nlmsghdr) std::byte buffer[kMessageBytesMax];
  nlmsghdr* message =
      begin_message(buffer, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, socket.take_sequence(1));
  auto* route = static_cast<rtmsg*>(mnl_nlmsg_put_extra_header(message, sizeof(rtmsg)));
  route->rtm_family = static_cast<unsigned char>(family);
  route->rtm_dst_len = 0;
  route->rtm_table = RT_TABLE_LOCAL;
  route->rtm_protocol = RTPROT_BOOT;
  route->rtm_scope = RT_SCOPE_HOST;
  route->rtm_type = RTN_LOCAL;
  mnl_attr_put_u32(message, RTA_OIF, kLoopbackIndex);
  return send_alone(socket, message, "add local default route");
}

}  // namespace pons::linux
