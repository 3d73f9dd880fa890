#include "names_service.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "decision_record.h"
#include "flow.h"
#include "pons/egress/dns_responder.h"

namespace pons::egress {

namespace {

constexpr int kQueriesPerTurn = 64;
constexpr Duration kQuestionTime = std::chrono::seconds(10);

// Refusals are decisions; names that were allowed show when they are used.
void record(Boundary& boundary, AttachedSandbox& sandbox, const DnsOutcome& outcome) {
  if (!outcome.name || outcome.decision.allowed()) return;
  record_decision(boundary, sandbox,
                  {.verdict = audit::Verdict::kDrop,
                   .sandbox = {},
                   .session = {},
                   .code = std::string(to_string(outcome.decision.reason)),
                   .rule = outcome.decision.rule,
                   .method = {},
                   .host = outcome.name->text(),
                   .port = 53,
                   .protocol = "dns",
                   .path = {},
                   .credentials = {},
                   .request_id = {}});
}

}  // namespace

void send_back(int socket, const msghdr& question, const std::string& reply) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(in6_pktinfo))> control{};
  iovec span = http::to_iovec(reply);
  msghdr message{};
  message.msg_name = question.msg_name;
  message.msg_namelen = question.msg_namelen;
  message.msg_iov = &span;
  message.msg_iovlen = 1;
  for (const cmsghdr* note = CMSG_FIRSTHDR(&question); note != nullptr;
       note = CMSG_NXTHDR(const_cast<msghdr*>(&question), const_cast<cmsghdr*>(note))) {
    if (note->cmsg_level != IPPROTO_IPV6 || note->cmsg_type != IPV6_PKTINFO) continue;
    std::memcpy(control.data(), note, CMSG_LEN(sizeof(in6_pktinfo)));
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Task<> answer_names(Boundary& boundary, AttachedSandbox& sandbox) {
  auto watch = linux::Watch::create(boundary.loop, sandbox.resolver.get());
  if (!watch) co_return;
  std::array<char, names::kDnsUdpBytesMax> query;
  for (int handled = 0;;) {
    // Who asked, and at which address: the answer must come from there.
    sockaddr_storage from{};
    alignas(cmsghdr) std::array<char, 128> control;
    iovec span{.iov_base = query.data(), .iov_len = query.size()};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &span;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = recvmsg(sandbox.resolver.get(), &message, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
      co_await watch->readable(kNever);
      continue;
    }
    if (got < 0 && errno != EINTR && errno != ECONNREFUSED) co_return;
    // Empty ones count too: they must not keep the loop for themselves.
    if (++handled % kQueriesPerTurn == 0) co_await boundary.loop.next_round();
    if (got <= 0) continue;
    const DnsOutcome outcome = answer_dns({query.data(), static_cast<std::size_t>(got)},
                                          *sandbox.policy, sandbox.names, boundary.loop.now());
    record(boundary, sandbox, outcome);
    if (!outcome.reply.empty()) send_back(sandbox.resolver.get(), message, outcome.reply);
  }
}

// The same over TCP: each message behind its size.
Task<> Flow::serve_names() {
  auto client = take_socket();
  if (!client) co_return;
  std::string input;
  for (;;) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[i]); };
    const std::size_t wanted = input.size() < 2 ? 2 : 2U + byte(0) * 256U + byte(1);
    if (input.size() >= 2 && (wanted == 2 || wanted > names::kDnsUdpBytesMax)) co_return;
    if (input.size() < wanted || input.size() < 2) {
      std::array<char, names::kDnsUdpBytesMax> piece;
      const auto got =
          co_await http::read_some(**client, std::span(piece).first(wanted - input.size()),
                                   boundary_.loop.now() + kQuestionTime);
      if (!got || *got == 0) co_return;
      input.append(piece.data(), *got);
      continue;
    }
    const DnsOutcome outcome = answer_dns(std::string_view(input).substr(2), *sandbox_->policy,
                                          sandbox_->names, boundary_.loop.now());
    egress::record(boundary_, *sandbox_, outcome);
    if (outcome.reply.empty()) co_return;
    const std::string framed = names::frame_for_tcp(outcome.reply);
    iovec span = http::to_iovec(framed);
    if (!co_await http::write_all(**client, {&span, 1}, kQuestionTime)) co_return;
    input.clear();
  }
}

}  // namespace pons::egress
