#pragma once

// For tests of the relay: a client, the relay and the host that it is for, on one loop. The
// connection to the host stands.

#include <sys/socket.h>

#include <functional>
#include <utility>

#include "boundary_fixture.h"
#include "relay.h"

namespace pons::egress {

inline constexpr std::string_view kHost = "api.test.example";

class RelayFixture : public BoundaryTest {
 protected:
  RelayFixture() { set("TOKEN", kSecret, {"host=api.test.example"}); }

  std::pair<std::unique_ptr<http::Transport>, std::unique_ptr<http::Transport>> make_line() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    return {*http::create_plain_transport(*loop_, linux::UniqueFd(ends[0])),
            *http::create_plain_transport(*loop_, linux::UniqueFd(ends[1]))};
  }
  Task<> to_the_end(Task<> client) {
    co_await loop_->next_round();  // so that run() is there to be stopped
    co_await std::move(client);
    loop_->stop();
  }
};

}  // namespace pons::egress
