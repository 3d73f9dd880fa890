#include "pons/spawner/client.h"

#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/linux/unix_socket.h"
#include "pons/roles/channel.h"

namespace pons::spawner {

namespace {

constexpr Duration kRoomPause = std::chrono::milliseconds(1);

Result<void> judge(const Reply& reply) {
  switch (reply.status) {
    case Status::kDone:
      return {};
    case Status::kBadRequest:
      return make_error(ErrorCode::kInvalid, "ask spawner", "it refused the request");
    case Status::kNoSuchSandbox:
      return make_error(ErrorCode::kNotFound, "ask spawner", "it has no such sandbox");
    case Status::kFailed:
      break;
  }
  return os_error(name_of(reply.step), {}, static_cast<int>(reply.os_error));
}

}  // namespace

Client::Client(linux::Loop& loop, int channel, Duration reply_time)
    : loop_(loop), channel_(channel), reply_time_(reply_time), begun_(loop), reader_(loop) {
  // Random, so that a reply meant for an earlier process of the warden matches nothing. Never
  // kNoticeId, and they do not pass the last number there is.
  random_bytes(&first_id_, sizeof first_id_);
  first_id_ = (first_id_ >> 2) | (1ULL << 62);
  next_id_ = first_id_;
  reader_.spawn(read_replies());
}

Task<Result<Reply>> Client::call(RequestKind kind, std::uint64_t argument) {
  Request request;
  request.kind = kind;
  request.id = next_id_++;
  request.argument = argument;
  CO_TRY_VOID(linux::send_message(channel_, bytes_of(request), {}));
  CO_TRY(auto answer, co_await exchange(request, loop_.now() + reply_time_));
  if (answer.reply.status != Status::kDone) CO_TRY_VOID(judge(answer.reply));
  co_return answer.reply;
}

Task<Result<SpawnerReply>> Client::call(Request request, Duration reply_time) {
  const TimePoint deadline = loop_.now() + reply_time;
  request.id = next_id_++;
  for (;;) {
    auto sent = linux::send_message(channel_, bytes_of(request), {});
    if (sent) break;
    // Both a full channel and one that has ended are kUnavailable; only the first may pass.
    if (sent.error().os_error != EAGAIN) co_return sent.error();
    if (loop_.now() >= deadline)
      co_return make_error(ErrorCode::kUnavailable, "ask spawner", "too many questions wait");
    co_await loop_.sleep_for(kRoomPause);
  }
  CO_TRY(auto answer, co_await exchange(request, deadline));
  CO_TRY_VOID(judge(answer.reply));
  co_return std::move(answer);
}

Task<Result<SpawnerReply>> Client::exchange(Request request, TimePoint deadline) {
  struct Registration {
    std::map<std::uint64_t, Pending*>& pending;
    std::uint64_t id;
    ~Registration() { pending.erase(id); }
  };
  Pending mine(loop_);
  const Registration registration{pending_, request.id};
  pending_.emplace(request.id, &mine);
  if (co_await mine.answered.wait(deadline) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, "ask spawner", "it does not answer");
  if (!mine.reply)
    co_return make_error(ErrorCode::kUnavailable, "ask spawner", "it ended before it answered");
  co_return std::move(*mine.reply);
}

Task<> Client::read_replies() {
  auto watch = linux::Watch::create(loop_, channel_);
  CHECK(watch.has_value());
  roles::FairTurns turns(loop_);
  for (;;) {
    auto message = roles::receive_from_role(channel_, sizeof(Reply), kReplyDescriptorsMax);
    if (!message && message.error().code == ErrorCode::kUnavailable) co_return;
    if (message && !*message) {
      co_await watch->readable(kNever);
      continue;
    }
    const auto reply = message ? parse_reply((*message)->bytes) : std::nullopt;
    if (reply && reply->id == kNoticeId) {
      take_notice(*reply);
      co_await turns.after_message();
      continue;
    }
    const auto waiting = reply ? pending_.find(reply->id) : pending_.end();
    if (waiting == pending_.end() || waiting->second->answered.is_set()) {
      LOG_WARN("a reply of the spawner matches no call");
    } else {
      waiting->second->reply = SpawnerReply{*reply, std::move((*message)->descriptors)};
      waiting->second->answered.set();
    }
    co_await turns.after_message();
  }
}

// Requests are read in their order: those before the first one that the new process found were
// taken by its predecessor, and whatever of them was not answered is not going to be.
void Client::take_notice(const Reply& notice) {
  const std::uint64_t found = notice.values[0];
  if (found == 0) {
    begun_.set();
    reader_.spawn(say_something());
    return;
  }
  // One that an earlier process of the warden sent came before all of ours.
  if (found < first_id_ || found >= next_id_) return;
  for (const auto& [id, pending] : pending_)
    if (id < found) pending->answered.set();
}

// Which is how the new process finds out where it stands, also when nobody wants anything.
Task<> Client::say_something() {
  (void)co_await call(RequestKind::kIdentify);
}

}  // namespace pons::spawner
