#include "cell_client.h"

#include <sys/socket.h>

#include <array>
#include <utility>

#include "cell_request.h"
#include "pons/linux/unix_socket.h"

namespace pons::sandbox {

namespace {

constexpr std::size_t kQueuedBytesMax = 1U << 20;
constexpr int kMessagesPerTurn = 32;

// One for all connections of the thread: a message is copied out before anyone else can run.
std::array<char, cell::kMessageBytesMax>& receive_buffer() {
  static thread_local std::array<char, cell::kMessageBytesMax> buffer;
  return buffer;
}

}  // namespace

Result<std::unique_ptr<CellClient>> CellClient::create(linux::Loop& loop, linux::UniqueFd socket) {
  TRY_VOID(linux::set_nonblocking(socket.get()));
  auto watch = TRY(linux::Watch::create(loop, socket.get()));
  return std::unique_ptr<CellClient>(new CellClient(loop, std::move(socket), std::move(watch)));
}

CellClient::CellClient(linux::Loop& loop, linux::UniqueFd socket, linux::Watch watch)
    : loop_(loop),
      socket_(std::move(socket)),
      watch_(std::move(watch)),
      queue_filled_(loop),
      tasks_(loop) {
  tasks_.spawn(read_replies());
  tasks_.spawn(send_queued());
}

CellClient::~CellClient() = default;

Task<Result<CellClient::Answer>> CellClient::call(std::string request, TimePoint deadline) {
  const auto lost = [] {
    return make_error(ErrorCode::kUnavailable, "ask cell", "the connection to it is lost");
  };
  if (health_ != Health::kGood) co_return lost();
  struct Registration {
    std::map<std::uint64_t, Pending*>& pending;
    std::uint64_t number;
    ~Registration() { pending.erase(number); }
  };
  const std::uint64_t number = next_number_++;
  set_request_number(request, number);
  Pending mine(loop_);
  const Registration registration{pending_, number};
  pending_.emplace(number, &mine);
  CO_TRY_VOID(send(std::move(request)));
  if (co_await mine.answered.wait(deadline) == linux::Wait::kTimeout && mine.answer == nullptr)
    co_return make_error(ErrorCode::kTimeout, "ask cell", "it does not answer");
  if (mine.answer == nullptr) co_return lost();
  co_return std::move(*mine.answer);
}

Result<void> CellClient::tell(std::string request) {
  if (health_ != Health::kGood)
    return make_error(ErrorCode::kUnavailable, "tell cell", "the connection to it is lost");
  set_request_number(request, 0);
  queued_bytes_ += request.size();
  queue_.push_back(std::move(request));
  queue_filled_.set();
  return {};
}

Task<bool> CellClient::ping(TimePoint deadline) {
  const auto answer = co_await call(plain_request(cell::Op::kPing), deadline);
  co_return answer.has_value() && answer->status == cell::Status::kDone;
}

Result<void> CellClient::send(std::string request) {
  if (queue_.empty()) {
    auto sent = linux::send_message(socket_.get(), request, {});
    if (sent) return {};
    if (sent.error().os_error != EAGAIN) {
      end(Health::kLost);
      return make_error(ErrorCode::kUnavailable, "ask cell", "the connection to it is lost");
    }
  }
  if (queued_bytes_ + request.size() > kQueuedBytesMax)
    return make_error(ErrorCode::kLimit, "ask cell", "too many requests wait for it");
  queued_bytes_ += request.size();
  queue_.push_back(std::move(request));
  queue_filled_.set();
  return {};
}

Task<> CellClient::send_queued() {
  while (health_ == Health::kGood) {
    co_await queue_filled_.wait(kNever);
    queue_filled_.reset();
    while (!queue_.empty() && health_ == Health::kGood) {
      auto sent = linux::send_message(socket_.get(), queue_.front(), {});
      if (sent) {
        queued_bytes_ -= queue_.front().size();
        queue_.pop_front();
      } else if (sent.error().os_error == EAGAIN) {
        co_await watch_.writable(kNever);
      } else {
        end(Health::kLost);
      }
    }
  }
}

Task<> CellClient::read_replies() {
  int handled = 0;
  while (health_ == Health::kGood) {
    auto& buffer = receive_buffer();
    // Without room for control data the kernel closes every descriptor that comes along.
    const ssize_t size =
        recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      co_await watch_.readable(kNever);
      continue;
    }
    // An empty message looks like the end, and from a cell it is one.
    if (size <= 0) {
      end(Health::kLost);
    } else if (static_cast<std::size_t>(size) > buffer.size()) {
      end(Health::kGarbage);
    } else {
      take_reply({buffer.data(), static_cast<std::size_t>(size)});
    }
    if (++handled % kMessagesPerTurn == 0) co_await loop_.next_round();
  }
}

void CellClient::take_reply(std::string_view bytes) {
  const auto reply = parse_cell_reply(bytes);
  if (!reply || reply->header.id == 0 || reply->header.id >= next_number_) {
    end(Health::kGarbage);
    return;
  }
  const auto waiting = pending_.find(reply->header.id);
  // Whoever asked is gone, or the cell repeats itself.
  if (waiting == pending_.end() || waiting->second->answer != nullptr) return;
  waiting->second->answer =
      std::make_unique<Answer>(Answer{.status = reply->header.status,
                                      .step = reply->header.step,
                                      .os_error = reply->header.os_error,
                                      .payload = std::string(reply->payload)});
  waiting->second->answered.set();
}

void CellClient::end(Health health) {
  if (health_ != Health::kGood) return;
  health_ = health;
  queue_.clear();
  queue_filled_.set();
  for (auto& [number, pending] : pending_) pending->answered.set();
}

}  // namespace pons::sandbox
