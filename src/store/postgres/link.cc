#include "link.h"

#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "fault.h"
#include "frontend_message.h"
#include "pons/base/log.h"

namespace pons::store::postgres {

namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kTurnBytes = 1 << 20;  // then somebody else has a turn
constexpr std::size_t kSlackBytes = 64 << 10;
constexpr std::size_t kStatementsMax = 256;
constexpr int kTriesMax = 5;
constexpr Duration kStallMax = std::chrono::seconds(30);

std::string reason(const Error& why) {
  return why.message.empty() ? why.describe() : why.message;
}

Error not_done(const Error& why) {
  return make_error(ErrorCode::kUnavailable, "ask PostgreSQL", reason(why));
}

Error lost(const Error& why) {
  return make_error(ErrorCode::kTimeout, "ask PostgreSQL",
                    fmt::format("the connection was lost before the answer came; what was asked "
                                "for may have been stored ({})",
                                reason(why)));
}

}  // namespace

Link::Link(linux::Loop& loop, std::unique_ptr<http::Transport> transport, LinkLimits limits,
           LinkOwner& owner)
    : loop_(loop),
      transport_(std::move(transport)),
      limits_(limits),
      owner_(owner),
      reader_(limits.answer.row_bytes + kSlackBytes),
      prepared_(kStatementsMax),
      has_words_(loop),
      is_busy_(loop) {}

Link::~Link() {
  if (ended_) return;
  if (unsaid_.empty()) {
    std::string bye;
    write_terminate(bye);
    const iovec words = http::to_iovec(bye);
    (void)transport_->try_write({&words, 1});
  }
  end(make_error(ErrorCode::kUnavailable, "ask PostgreSQL", "the store was closed"));
}

void Link::send(std::shared_ptr<Request> request) {
  ++request->tries;
  const std::size_t before = unsaid_.size();
  auto asked = Asked::ask(request, prepared_, limits_.answer, unsaid_);
  if (!asked) {
    unsaid_.resize(before);
    request->answer(asked.error());
    owner_.on_answered(*request);
    return;
  }
  if (asked_.empty()) heard_ = loop_.now();
  queued_ += unsaid_.size() - before;
  asked_.push_back({.asked = std::move(*asked), .end = queued_});
  has_words_.set();
  is_busy_.set();
}

void Link::hang_up(Error why) {
  if (!why_) why_ = std::move(why);
  shutdown(transport_->fd(), SHUT_RDWR);  // the reader hears it
}

Task<Error> Link::run() {
  Error why;
  {
    linux::TaskGroup others(loop_);
    others.spawn(say());
    others.spawn(watch());
    why = co_await hear();
  }
  if (why_) why = *why_;
  end(why);
  co_return why;
}

Task<> Link::say() {
  for (;;) {
    co_await has_words_.wait(kNever);
    has_words_.reset();
    while (!unsaid_.empty()) {
      std::string words = std::exchange(unsaid_, {});
      std::size_t at = 0;
      while (at < words.size()) {
        const iovec rest = http::to_iovec(std::string_view(words).substr(at));
        const http::IoOutcome outcome = transport_->try_write({&rest, 1});
        if (outcome.state == http::IoOutcome::State::kDone) {
          at += outcome.bytes;
          said_ += outcome.bytes;
        } else if (outcome.state != http::IoOutcome::State::kWantWrite &&
                   outcome.state != http::IoOutcome::State::kWantRead) {
          co_return hang_up(os_error("tell PostgreSQL", {}, outcome.os_error));
        } else if (co_await http::wait_for(*transport_, outcome.state, loop_.now() + kStallMax) ==
                   linux::Wait::kTimeout) {
          co_return hang_up(
              make_error(ErrorCode::kUnavailable, "tell PostgreSQL", "the server takes no bytes"));
        }
      }
    }
  }
}

// A server that is gone without a word.
Task<> Link::watch() {
  for (;;) {
    co_await is_busy_.wait(kNever);
    co_await loop_.sleep_until(heard_ + limits_.silence_max);
    if (asked_.empty())
      is_busy_.reset();
    else if (loop_.now() >= heard_ + limits_.silence_max)
      co_return hang_up(make_error(ErrorCode::kUnavailable, "hear PostgreSQL",
                                   "the server does not answer any more"));
  }
}

Task<Error> Link::hear() {
  std::vector<char> buffer(kReadBytes);
  std::size_t in_turn = 0;
  for (;;) {
    const auto got = co_await http::read_some(*transport_, buffer, kNever);
    if (!got) co_return got.error();
    if (*got == 0)
      co_return make_error(ErrorCode::kUnavailable, "hear PostgreSQL",
                           "the server closed the connection");
    heard_ = loop_.now();
    reader_.feed({buffer.data(), *got});
    for (;;) {
      const auto message = reader_.next();
      if (!message) co_return message.error();
      if (!*message) break;
      if (const auto handled = handle(**message); !handled) co_return handled.error();
    }
    in_turn += *got;
    if (in_turn > kTurnBytes) {
      in_turn = 0;
      co_await loop_.next_round();
    }
  }
}

Result<void> Link::handle(const BackendMessage& message) {
  switch (message.type) {
    case backend::kNotice:
    case backend::kParameterStatus:
    case backend::kCloseComplete:
      return {};
    case backend::kNotification:
      owner_.on_notification(TRY(read_notification(message.body)));
      return {};
    case backend::kError: {
      Fault fault = TRY(read_fault(message.body));
      // Whether what was under way has been stored is not known then: it may be past its commit.
      if (asked_.empty() || fault.severity != "ERROR") return error_of(fault);
      asked_.front().asked.hear_fault(std::move(fault));
      return {};
    }
    case backend::kReady:
      if (message.body != "I")
        return make_error(ErrorCode::kInvalid, "hear PostgreSQL",
                          "the server is in a transaction that nobody began");
      return finish_first();
    default:
      break;
  }
  if (asked_.empty())
    return make_error(ErrorCode::kInvalid, "hear PostgreSQL",
                      "the server answers what nobody has asked");
  Asked& first = asked_.front().asked;
  auto heard = first.hear(message);
  if (!heard && first.failure()) {
    const std::shared_ptr<Request> request = first.request();
    request->answer(*first.failure());
    asked_.pop_front();
    owner_.on_answered(*request);
  }
  return heard;
}

Result<void> Link::finish_first() {
  if (asked_.empty())
    return make_error(ErrorCode::kInvalid, "hear PostgreSQL",
                      "the server answers what nobody has asked");
  Asked first = std::move(asked_.front().asked);
  asked_.pop_front();
  const std::shared_ptr<Request>& request = first.request();
  auto result = first.finish(prepared_);
  const std::optional<Fault>& fault = first.fault();
  if (fault && may_be_asked_again(*fault) && request->tries < kTriesMax) {
    owner_.on_returned(request);
  } else {
    request->answer(std::move(result));
    owner_.on_answered(*request);
  }
  if (fault && ends_connection(*fault)) return error_of(*fault);
  return {};
}

void Link::end(const Error& why) {
  ended_ = true;
  // From the last: those that go back to a queue's front are in their order then.
  while (!asked_.empty()) {
    const UnderWay last = std::move(asked_.back());
    asked_.pop_back();
    const std::shared_ptr<Request>& request = last.asked.request();
    // Without its last byte the server stores nothing of it.
    const bool is_unheard = last.end > said_;
    if ((request->may_repeat || is_unheard) && request->tries < kTriesMax) {
      owner_.on_returned(request);
    } else {
      request->answer(is_unheard || request->may_repeat ? not_done(why) : lost(why));
      owner_.on_answered(*request);
    }
  }
}

}  // namespace pons::store::postgres
