#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

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

Task<> answer_names(Boundary& boundary, AttachedSandbox& sandbox) {
  auto watch = linux::Watch::create(boundary.loop, sandbox.resolver.get());
  if (!watch) co_return;
  std::array<char, kDnsUdpBytesMax> query;
  for (int handled = 0;;) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const ssize_t got = recvfrom(sandbox.resolver.get(), query.data(), query.size(), MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from), &size);
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
    if (!outcome.reply.empty())
      sendto(sandbox.resolver.get(), outcome.reply.data(), outcome.reply.size(),
             MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&from), size);
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
    if (input.size() >= 2 && (wanted == 2 || wanted > kDnsUdpBytesMax)) co_return;
    if (input.size() < wanted || input.size() < 2) {
      std::array<char, kDnsUdpBytesMax> piece;
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
    const std::string framed = frame_for_tcp(outcome.reply);
    iovec span = http::to_iovec(framed);
    if (!co_await http::write_all(**client, {&span, 1}, kQuestionTime)) co_return;
    input.clear();
  }
}

}  // namespace pons::egress
