#include "pons/database/relay.h"

#include <vector>

namespace pons::database {

namespace {

constexpr std::size_t kPieceBytes = 64 << 10;
constexpr Duration kStallMax = std::chrono::minutes(1);

Task<> carry(http::Transport& from, http::Transport& to, linux::Event& over) {
  std::vector<char> buffer(kPieceBytes);
  for (;;) {
    const auto got = co_await http::read_some(from, buffer, kNever);
    if (!got || *got == 0) break;
    iovec piece{.iov_base = buffer.data(), .iov_len = *got};
    if (!co_await http::write_all(to, {&piece, 1}, kStallMax)) break;
    co_await from.watch().loop().next_round();
  }
  over.set();
}

}  // namespace

Task<> relay(linux::Loop& loop, http::Transport& inside, http::Transport& outside) {
  linux::Event over(loop);
  linux::TaskGroup directions(loop);
  directions.spawn(carry(inside, outside, over));
  directions.spawn(carry(outside, inside, over));
  co_await over.wait(kNever);
}

}  // namespace pons::database
