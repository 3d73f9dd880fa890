// The network namespace, which belongs to the host, and sockets of others.

#include "attack.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

struct Change {
  struct nlmsghdr head;
  union {
    struct ifinfomsg link;
    struct ifaddrmsg address;
    struct rtmsg route;
  } body;
  struct rtattr attribute;
  struct in_addr value;
};

// The kernel's errno, or 0 when it obeyed.
static int ask(struct Change* change, size_t body) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return errno;
  char message[128] = {0};
  const size_t head = NLMSG_LENGTH(body);
  memcpy(message, change, sizeof change->head);
  memcpy(message + NLMSG_HDRLEN, &change->body, body);
  struct nlmsghdr* sent = (struct nlmsghdr*)message;
  const size_t at = NLMSG_ALIGN(head);
  memcpy(message + at, &change->attribute, sizeof change->attribute);
  memcpy(message + at + RTA_LENGTH(0), &change->value, sizeof change->value);
  sent->nlmsg_len = (unsigned)(at + (change->attribute.rta_len == 0 ? 0 : RTA_LENGTH(4)));
  sent->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
  struct {
    struct nlmsghdr head;
    struct nlmsgerr error;
    char rest[256];
  } answer;
  const int failed =
      send(fd, message, sent->nlmsg_len, 0) < 0 || recv(fd, &answer, sizeof answer, 0) < 0;
  const int outcome = failed                                  ? errno
                      : answer.head.nlmsg_type == NLMSG_ERROR ? -answer.error.error
                                                              : EPROTO;
  close(fd);
  return outcome;
}

static const char* netlink(void) {
  struct Change down = {.head = {.nlmsg_type = RTM_NEWLINK},
                        .body.link = {.ifi_index = 1, .ifi_change = IFF_UP}};
  int outcome = ask(&down, sizeof down.body.link);
  if (outcome != EPERM) return broken("lo down: errno %d", outcome);
  struct Change address = {
      .head = {.nlmsg_type = RTM_NEWADDR, .nlmsg_flags = NLM_F_CREATE},
      .body.address = {.ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = 1},
      .attribute = {.rta_len = RTA_LENGTH(4), .rta_type = IFA_LOCAL},
      .value.s_addr = htonl(0x0a010203)};
  outcome = ask(&address, sizeof address.body.address);
  if (outcome != EPERM) return broken("address: errno %d", outcome);
  struct Change route = {.head = {.nlmsg_type = RTM_NEWROUTE, .nlmsg_flags = NLM_F_CREATE},
                         .body.route = {.rtm_family = AF_INET,
                                        .rtm_dst_len = 32,
                                        .rtm_table = RT_TABLE_MAIN,
                                        .rtm_protocol = RTPROT_BOOT,
                                        .rtm_type = RTN_BLACKHOLE},
                         .attribute = {.rta_len = RTA_LENGTH(4), .rta_type = RTA_DST},
                         .value.s_addr = htonl(0x0a010204)};
  outcome = ask(&route, sizeof route.body.route);
  return outcome == EPERM ? NULL : broken("route: errno %d", outcome);
}

static const char* interface_calls(void) {
  struct ifreq request = {.ifr_name = "lo"};
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (ioctl(fd, SIOCSIFFLAGS, &request) == 0) return "lo down by ioctl";
  struct sockaddr_in* address = (struct sockaddr_in*)&request.ifr_addr;
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a010205)};
  return ioctl(fd, SIOCSIFADDR, &request) == 0 ? "address by ioctl" : NULL;
}

static const char* odd_sockets(void) {
  static const struct {
    const char* name;
    int family, type, protocol;
  } kSockets[] = {{"raw", AF_INET, SOCK_RAW, IPPROTO_ICMP},
                  {"raw IP", AF_INET, SOCK_RAW, IPPROTO_RAW},
                  {"raw v6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6},
                  {"packet", AF_PACKET, SOCK_RAW, 0x300},
                  {"packet, cooked", AF_PACKET, SOCK_DGRAM, 0x300},
                  {"packet of old", AF_INET, SOCK_PACKET, 0x300},
                  {"netfilter", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER},
                  {"audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT},
                  {"uevent", AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT},
                  {"diag", AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG},
                  {"generic", AF_NETLINK, SOCK_RAW, NETLINK_GENERIC},
                  {"xfrm", AF_NETLINK, SOCK_RAW, NETLINK_XFRM},
                  {"vsock", 40, SOCK_STREAM, 0},
                  {"alg", 38, SOCK_SEQPACKET, 0},
                  {"key", 15, SOCK_RAW, 2},
                  {"xdp", 44, SOCK_RAW, 0},
                  {"can", 29, SOCK_RAW, 1},
                  {"bluetooth", 31, SOCK_RAW, 0}};
  for (size_t row = 0; row < sizeof kSockets / sizeof *kSockets; ++row)
    if (socket(kSockets[row].family, kSockets[row].type, kSockets[row].protocol) >= 0)
      return kSockets[row].name;
  return NULL;
}

static int reach(const char* name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const size_t size = strlen(name);
  memcpy(address.sun_path + 1, name, size < 100 ? size : 100);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return connect(fd, (struct sockaddr*)&address, (socklen_t)(sizeof(sa_family_t) + 1 + size)) == 0;
}

static const char* abstract_sockets(void) {
  if (reach(host_word("HOST_SOCKET"))) return "of the host";
  if (reach(host_word("OTHER_SOCKET"))) return "of another sandbox";
  return NULL;
}

static const char* host_port(void) {
  const struct sockaddr_in address = {
      .sin_family = AF_INET,
      .sin_port = htons((unsigned short)atoi(host_word("HOST_PORT"))),
      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  return connect(fd, (const struct sockaddr*)&address, sizeof address) == 0 ? "a port of the host"
                                                                            : NULL;
}

const struct Attack kNetworkAttacks[] = {
    {"netlink", netlink},         {"interface_calls", interface_calls},
    {"odd_sockets", odd_sockets}, {"abstract_sockets", abstract_sockets},
    {"host_port", host_port},     {NULL, NULL},
};
