#include "pons/linux/nftables.h"

#include <arpa/inet.h>
#include <netinet/in.h>  // before <linux/netfilter.h>, which redefines its names otherwise

#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include <cstring>
#include <memory>
#include <vector>

namespace pons::linux {
namespace {

constexpr const char* kTable = "pons";
constexpr const char* kChain = "output";
constexpr std::int32_t kPriorityNatOutput = -100;
constexpr std::size_t kBatchBytesMax = 16 << 10;

using Table = std::unique_ptr<nftnl_table, void (*)(const nftnl_table*)>;
using Chain = std::unique_ptr<nftnl_chain, void (*)(const nftnl_chain*)>;
using Rule = std::unique_ptr<nftnl_rule, void (*)(const nftnl_rule*)>;

// Messages that the kernel applies together or not at all.
class Batch {
 public:
  explicit Batch(std::uint32_t first_sequence)
      : bytes_(kBatchBytesMax), first_(first_sequence), next_(first_sequence) {
    advance(nftnl_batch_begin(at(), next_++));
  }

  nlmsghdr* begin(std::uint16_t type, std::uint16_t flags) {
    return nftnl_nlmsg_build_hdr(at(), type, NFPROTO_INET, NLM_F_ACK | flags, next_++);
  }
  void advance(const nlmsghdr* header) { used_ += MNL_ALIGN(header->nlmsg_len); }

  Result<void> send(NetlinkSocket& socket) {
    const std::uint32_t last = next_ - 1;
    advance(nftnl_batch_end(at(), next_++));
    return socket.transact(std::as_bytes(std::span(bytes_).first(used_)), first_, last,
                           "load nftables rules");
  }

 private:
  char* at() { return bytes_.data() + used_; }
  std::vector<char> bytes_;
  std::size_t used_ = 0;
  std::uint32_t first_;
  std::uint32_t next_;
};

// One rule as a list of small steps on the kernel's registers.
class RuleBuilder {
 public:
  RuleBuilder() : rule_(nftnl_rule_alloc(), nftnl_rule_free) {
    nftnl_rule_set_str(rule_.get(), NFTNL_RULE_TABLE, kTable);
    nftnl_rule_set_str(rule_.get(), NFTNL_RULE_CHAIN, kChain);
  }

  RuleBuilder& meta_is(std::uint32_t key, std::uint8_t value) {
    nftnl_expr* load = add("meta");
    nftnl_expr_set_u32(load, NFTNL_EXPR_META_KEY, key);
    nftnl_expr_set_u32(load, NFTNL_EXPR_META_DREG, NFT_REG_1);
    return equals(&value, sizeof value);
  }
  RuleBuilder& payload(std::uint32_t base, std::uint32_t offset, std::uint32_t length) {
    nftnl_expr* load = add("payload");
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_BASE, base);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_LEN, length);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
    return *this;
  }
  RuleBuilder& masked_with(std::uint32_t mask) {
    const std::uint32_t no_flip = 0;
    nftnl_expr* bits = add("bitwise");
    nftnl_expr_set_u32(bits, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
    nftnl_expr_set_u32(bits, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
    nftnl_expr_set_u32(bits, NFTNL_EXPR_BITWISE_LEN, sizeof mask);
    nftnl_expr_set(bits, NFTNL_EXPR_BITWISE_MASK, &mask, sizeof mask);
    nftnl_expr_set(bits, NFTNL_EXPR_BITWISE_XOR, &no_flip, sizeof no_flip);
    return *this;
  }
  RuleBuilder& equals(const void* value, std::uint32_t size) {
    nftnl_expr* compare = add("cmp");
    nftnl_expr_set_u32(compare, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
    nftnl_expr_set_u32(compare, NFTNL_EXPR_CMP_OP, NFT_CMP_EQ);
    nftnl_expr_set(compare, NFTNL_EXPR_CMP_DATA, value, size);
    return *this;
  }
  RuleBuilder& accept() {
    nftnl_expr* verdict = add("immediate");
    nftnl_expr_set_u32(verdict, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
    nftnl_expr_set_u32(verdict, NFTNL_EXPR_IMM_VERDICT, NF_ACCEPT);
    return *this;
  }
  RuleBuilder& redirect_to(std::uint16_t port) {
    const std::uint16_t network_order = htons(port);
    nftnl_expr* load = add("immediate");
    nftnl_expr_set_u32(load, NFTNL_EXPR_IMM_DREG, NFT_REG_1);
    nftnl_expr_set(load, NFTNL_EXPR_IMM_DATA, &network_order, sizeof network_order);
    nftnl_expr* redirect = add("redir");
    nftnl_expr_set_u32(redirect, NFTNL_EXPR_REDIR_REG_PROTO_MIN, NFT_REG_1);
    return *this;
  }

  void append_to(Batch& batch) const {
    nlmsghdr* header = batch.begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
    nftnl_rule_nlmsg_build_payload(header, rule_.get());
    batch.advance(header);
  }

 private:
  nftnl_expr* add(const char* kind) {
    nftnl_expr* step = nftnl_expr_alloc(kind);
    nftnl_rule_add_expr(rule_.get(), step);  // the rule owns it
    return step;
  }
  Rule rule_;
};

void put_table(Batch& batch, std::uint16_t type, std::uint16_t flags) {
  const Table table(nftnl_table_alloc(), nftnl_table_free);
  nftnl_table_set_str(table.get(), NFTNL_TABLE_NAME, kTable);
  nlmsghdr* header = batch.begin(type, flags);
  nftnl_table_nlmsg_build_payload(header, table.get());
  batch.advance(header);
}

void put_chain(Batch& batch) {
  const Chain chain(nftnl_chain_alloc(), nftnl_chain_free);
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TABLE, kTable);
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_NAME, kChain);
  nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TYPE, "nat");
  nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_HOOKNUM, NF_INET_LOCAL_OUT);
  nftnl_chain_set_s32(chain.get(), NFTNL_CHAIN_PRIO, kPriorityNatOutput);
  nlmsghdr* header = batch.begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE);
  nftnl_chain_nlmsg_build_payload(header, chain.get());
  batch.advance(header);
}

void put_rules(Batch& batch, const RedirectPorts& ports) {
  constexpr std::uint32_t kDestinationV4 = 16;  // offsets of the destination in the headers
  constexpr std::uint32_t kDestinationV6 = 24;
  constexpr std::uint32_t kDestinationPort = 2;
  const std::uint16_t dns_port = htons(53);
  const std::uint32_t loopback_net = htonl(0x7f000000);

  RuleBuilder()
      .meta_is(NFT_META_L4PROTO, IPPROTO_UDP)
      .payload(NFT_PAYLOAD_TRANSPORT_HEADER, kDestinationPort, sizeof dns_port)
      .equals(&dns_port, sizeof dns_port)
      .redirect_to(ports.dns)
      .append_to(batch);
  RuleBuilder()
      .meta_is(NFT_META_NFPROTO, NFPROTO_IPV4)
      .payload(NFT_PAYLOAD_NETWORK_HEADER, kDestinationV4, sizeof loopback_net)
      .masked_with(htonl(0xff000000))
      .equals(&loopback_net, sizeof loopback_net)
      .accept()
      .append_to(batch);
  RuleBuilder()
      .meta_is(NFT_META_NFPROTO, NFPROTO_IPV6)
      .payload(NFT_PAYLOAD_NETWORK_HEADER, kDestinationV6, sizeof in6addr_loopback)
      .equals(&in6addr_loopback, sizeof in6addr_loopback)
      .accept()
      .append_to(batch);
  RuleBuilder().meta_is(NFT_META_L4PROTO, IPPROTO_TCP).redirect_to(ports.tcp).append_to(batch);
}

}  // namespace

Result<Nftables> Nftables::open() {
  return Nftables(TRY(NetlinkSocket::open(NETLINK_NETFILTER)));
}

Result<Nftables> Nftables::open_in(int net_namespace_fd) {
  return Nftables(TRY(NetlinkSocket::open_in(net_namespace_fd, NETLINK_NETFILTER)));
}

Result<void> Nftables::redirect_outgoing(const RedirectPorts& ports) {
  if (ports.tcp == 0 || ports.dns == 0)
    return make_error(ErrorCode::kInvalid, "load nftables rules", "port 0 is not a port");
  constexpr std::uint32_t kMessages = 16;
  Batch batch(socket_.take_sequence(kMessages));
  // Created so that it can be deleted, deleted so that it is empty: all inside one transaction.
  put_table(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE);
  put_table(batch, NFT_MSG_DELTABLE, 0);
  put_table(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE);
  put_chain(batch);
  put_rules(batch, ports);
  return batch.send(socket_);
}

}  // namespace pons::linux
