#include "splice.h"

#include <vector>

namespace pons::egress {

namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;
constexpr Duration kStall = std::chrono::minutes(2);

struct Direction {
  linux::Loop& loop;
  http::Transport& from;
  http::Transport& to;
  const MayLeave* may_pass;  // null: everything may
  TimePoint& used;           // of both directions
  Duration idle_max;
};

Task<> carry(Direction way, linux::Event& broken) {
  std::vector<char> buffer(kPieceBytes);
  for (;;) {
    const auto got = co_await http::read_some(way.from, buffer, way.used + way.idle_max);
    if (!got && got.error().code == ErrorCode::kTimeout && way.loop.now() < way.used + way.idle_max)
      continue;  // the other direction was busy meanwhile
    if (!got) break;
    if (*got == 0) {
      way.to.shut_down_writing();
      co_return;
    }
    way.used = way.loop.now();
    if (way.may_pass != nullptr && !(*way.may_pass)(*got)) break;
    iovec piece{.iov_base = buffer.data(), .iov_len = *got};
    if (!co_await http::write_all(way.to, {&piece, 1}, kStall)) break;
  }
  broken.set();
}

Task<> set_when_empty(linux::TaskGroup& group, linux::Event& over) {
  co_await group.wait_until_empty(kNever);
  over.set();
}

}  // namespace

Task<> splice(linux::Loop& loop, http::Transport& inside, http::Transport& outside,
              MayLeave may_leave, Duration idle_max) {
  TimePoint used = loop.now();
  linux::Event over(loop);
  linux::TaskGroup directions(loop);
  linux::TaskGroup end(loop);
  directions.spawn(carry({loop, inside, outside, &may_leave, used, idle_max}, over));
  directions.spawn(carry({loop, outside, inside, nullptr, used, idle_max}, over));
  end.spawn(set_when_empty(directions, over));
  co_await over.wait(kNever);
}

}  // namespace pons::egress
