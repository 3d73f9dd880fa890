#include "pons/spawner/client.h"

#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/linux/unix_socket.h"
#include "pons/roles/channel.h"

namespace pons::spawner {

Client::Client(linux::Loop& loop, int channel, Duration reply_time)
    : loop_(loop), channel_(channel), reply_time_(reply_time), reader_(loop) {
  // Random, so that a reply meant for an earlier process of the warden matches nothing.
  random_bytes(&next_id_, sizeof next_id_);
  reader_.spawn(read_replies());
}

Task<Result<Reply>> Client::call(RequestKind kind, std::uint64_t argument) {
  const Request request{.kind = kind, .id = next_id_++, .argument = argument};
  CO_TRY_VOID(linux::send_message(channel_, bytes_of(request), {}));
  struct Registration {
    std::map<std::uint64_t, Pending*>& pending;
    std::uint64_t id;
    ~Registration() { pending.erase(id); }
  };
  Pending mine(loop_);
  const Registration registration{pending_, request.id};
  pending_.emplace(request.id, &mine);
  if (co_await mine.answered.wait(loop_.now() + reply_time_) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, "ask spawner", "it does not answer");
  if (mine.reply->status != Status::kDone)
    co_return make_error(ErrorCode::kInvalid, "ask spawner", "it refused the request");
  co_return *mine.reply;
}

Task<> Client::read_replies() {
  auto watch = linux::Watch::create(loop_, channel_);
  CHECK(watch.has_value());
  roles::FairTurns turns(loop_);
  for (;;) {
    auto message = roles::receive_from_role(channel_, sizeof(Reply), 0);
    if (!message && message.error().code == ErrorCode::kUnavailable) co_return;
    if (message && !*message) {
      co_await watch->readable(kNever);
      continue;
    }
    const auto reply = message ? parse_reply((*message)->bytes) : std::nullopt;
    const auto waiting = reply ? pending_.find(reply->id) : pending_.end();
    if (waiting == pending_.end()) {
      LOG_WARN("a reply of the spawner matches no call");
    } else {
      waiting->second->reply = reply;
      waiting->second->answered.set();
    }
    co_await turns.after_message();
  }
}

}  // namespace pons::spawner
