#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/session/conversation.h"
#include "pons/session/decide.h"
#include "pons/session/fold.h"
#include "pons/session/replay.h"

using namespace pons;
using namespace pons::session;

// A log as a store may hold it, "TYPE BODY" per line: what is read is written back as it was,
// folds, and comes to rest; whatever is asked of the model then is JSON.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kEventsMax = 200;
  std::string_view left(reinterpret_cast<const char*>(data), size);
  State state;
  std::vector<StoredEvent> log;
  while (!left.empty() && log.size() < kEventsMax) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto event = read_event(line.substr(0, space), line.substr(space + 1));
    if (!event) continue;
    const auto again = read_event(type_of(*event), write_body(*event));
    CHECK(again && *again == *event);
    log.push_back({.seq = static_cast<Seq>(log.size()) + 1,
                   .at_ms = static_cast<std::int64_t>(log.size()),
                   .event = *event});
    CHECK(parse_json(write_public(log.back()), {.depth = 256}));
    fold(state, log.back());
    State ahead = state;
    std::vector<StoredEvent> decided;
    settle(ahead, 1, decided);
    CHECK(decide(ahead).empty());
    (void)status_of(ahead);
    if (ahead.asked) CHECK(parse_json(write_request(ahead, ahead.asked->purpose), {.depth = 256}));
  }
  (void)replay(log);
  return 0;
}
