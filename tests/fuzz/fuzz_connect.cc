// Bytes of a stream of messages. Holds: a message is accepted exactly when it would be written so,
// the answer for a beginning never contradicts the answer for the whole, and nothing is read past
// the bytes given.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "connect.h"
#include "pons/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pons::e2b;
  using State = EnvelopeParse::State;
  constexpr std::size_t kPayloadMax = 1000;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (;;) {
    const std::vector<char> memory(rest.begin(), rest.end());
    const std::string_view exact(memory.data(), memory.size());
    const auto parse = parse_envelope(exact, kPayloadMax);
    CHECK((parse.state == State::kRefused) == (*parse.reason != '\0'));
    for (std::size_t cut = 0; cut < exact.size() && cut < 20; ++cut) {
      const auto early = parse_envelope(exact.substr(0, cut), kPayloadMax);
      if (early.state == State::kDone)
        CHECK(parse.state == State::kDone && early.payload == parse.payload);
      if (early.state == State::kRefused) CHECK(parse.state == State::kRefused);
    }
    if (parse.state != State::kDone) return 0;
    CHECK(parse.payload.size() <= kPayloadMax);
    CHECK(make_envelope(Envelope::kMessage, parse.payload) == exact.substr(0, parse.consumed));
    rest.remove_prefix(parse.consumed);
  }
}
