#include "role_line.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>

#include "pons/base/log.h"
#include "pons/roles/channel.h"

namespace pons::front {

namespace {

using http::IoOutcome;

// What is answered within this time raises no question.
constexpr Duration kUnremarkable = std::chrono::seconds(1);
constexpr Duration kAnswerTime = std::chrono::seconds(4);
constexpr Duration kAskAgain = std::chrono::milliseconds(250);

}  // namespace

// Notes since when its peer owes an answer.
class RoleLine::Connection final : public http::Transport {
 public:
  Connection(RoleLine& line, std::unique_ptr<http::Transport> inner)
      : line_(line), inner_(std::move(inner)) {
    place_ = line_.open_.insert(line_.open_.end(), this);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override { line_.open_.erase(place_); }

  IoOutcome try_read(std::span<char> into) override {
    const IoOutcome outcome = inner_->try_read(into);
    if (outcome.state == IoOutcome::State::kDone) asked_at_ = kNever;
    return outcome;
  }
  IoOutcome try_write(std::span<const iovec> from) override {
    if (line_.stuck_) cut();
    const IoOutcome outcome = inner_->try_write(from);
    if (outcome.state == IoOutcome::State::kDone && asked_at_ == kNever) {
      asked_at_ = line_.loop_.now();
      line_.asked_.set();
    }
    return outcome;
  }
  bool has_buffered_input() const override { return inner_->has_buffered_input(); }
  void shut_down_writing() override { inner_->shut_down_writing(); }
  IoOutcome try_shut_down_writing() override { return inner_->try_shut_down_writing(); }
  linux::Watch& watch() override { return inner_->watch(); }
  int fd() const override { return inner_->fd(); }

  TimePoint asked_at() const { return asked_at_; }
  void cut() { shutdown(fd(), SHUT_RDWR); }

 private:
  RoleLine& line_;
  std::unique_ptr<http::Transport> inner_;
  std::list<Connection*>::iterator place_;
  TimePoint asked_at_ = kNever;
};

http::Connector RoleLine::connector(std::size_t open_max) {
  return [this, open_max](TimePoint) { return connect(open_max); };
}

Task<Result<std::unique_ptr<http::Transport>>> RoleLine::connect(std::size_t open_max) {
  if (stuck_)
    co_return make_error(ErrorCode::kUnavailable, "reach role",
                         fmt::format("the {} does not answer at this moment; try again", role_));
  if (open_.size() >= open_max)
    co_return make_error(ErrorCode::kLimit, "reach role",
                         "too many streams are open at the same time; try again");
  auto socket = roles::dial(channel_);
  if (!socket)
    co_return make_error(ErrorCode::kUnavailable, "reach role", socket.error().describe());
  CO_TRY(auto transport, http::create_plain_transport(loop_, std::move(*socket)));
  co_return std::make_unique<Connection>(*this, std::move(transport));
}

bool RoleLine::is_waited_for(Duration at_least) const {
  const TimePoint before = loop_.now() - at_least;
  return std::ranges::any_of(open_,
                             [&](const Connection* one) { return one->asked_at() <= before; });
}

// Streams that only listen stay: they go on when the role does.
void RoleLine::cut_waiting() {
  const TimePoint before = loop_.now() - kAnswerTime;
  for (Connection* one : open_)
    if (one->asked_at() <= before) one->cut();
}

Task<bool> RoleLine::answers() {
  auto response = co_await linux::within(loop_, loop_.now() + kAnswerTime,
                                         health_.send({.target = "/healthz"}));
  if (!response || !*response || (*response)->status() != 200) co_return false;
  constexpr std::size_t kHealthBytesMax = 4096;
  co_return (co_await (*response)->read_whole_body(kHealthBytesMax)).has_value();
}

Task<> RoleLine::watch() {
  for (;;) {
    if (!is_waited_for(Duration::zero())) {
      asked_.reset();
      co_await asked_.wait(kNever);
    }
    co_await loop_.sleep_for(kUnremarkable);
    if (!is_waited_for(kUnremarkable) || co_await answers()) continue;
    LOG_WARN("a role does not answer", {"role", role_});
    stuck_ = true;
    do {
      cut_waiting();
      co_await loop_.sleep_for(kAskAgain);
    } while (!co_await answers());
    stuck_ = false;
    LOG_INFO("a role answers again", {"role", role_});
  }
}

}  // namespace pons::front
