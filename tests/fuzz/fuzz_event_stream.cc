// The first byte picks the limit and how the stream is cut; the rest is the stream. Holds: the cut
// changes nothing, no event is over the limit, what was read can be written and read again, and
// data of any bytes stays data.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/check.h"
#include "pons/http/event_stream.h"

namespace {

using pons::http::append_server_event;
using pons::http::EventStreamParser;
using pons::http::ServerEvent;

struct Outcome {
  std::vector<ServerEvent> events;
  bool refused = false;
  std::string last_event_id;
  std::optional<std::chrono::milliseconds> retry;
};

bool same(const ServerEvent& a, const ServerEvent& b) {
  return a.id == b.id && a.event == b.event && a.data == b.data;
}

Outcome parse(std::size_t event_bytes_max, std::string_view stream, std::size_t piece) {
  EventStreamParser parser(event_bytes_max);
  Outcome outcome;
  while (!stream.empty() && !outcome.refused) {
    // A copy of its own size, so that the sanitizer sees a read past the piece.
    const std::string bytes(stream.substr(0, piece));
    stream.remove_prefix(bytes.size());
    const auto fed = parser.feed(bytes, [&](const ServerEvent& event) {
      CHECK(event.data.size() + event.event.size() <= event_bytes_max);
      CHECK(event.id.size() <= event_bytes_max);
      CHECK(event.id.find('\0') == std::string::npos);
      for (const auto* text : {&event.id, &event.event})
        CHECK(text->find_first_of("\r\n") == std::string::npos);
      CHECK(event.data.find('\r') == std::string::npos);
      outcome.events.push_back(event);
    });
    outcome.refused = !fed;
  }
  outcome.last_event_id = parser.last_event_id();
  outcome.retry = parser.retry();
  return outcome;
}

void check_same(const Outcome& a, const Outcome& b) {
  CHECK(a.events.size() == b.events.size());
  for (std::size_t i = 0; i < a.events.size(); ++i) CHECK(same(a.events[i], b.events[i]));
  CHECK(a.refused == b.refused && a.last_event_id == b.last_event_id && a.retry == b.retry);
}

// Writes one event on its own and expects to read exactly that.
void check_round_trip(const ServerEvent& event, const std::string& expected_data) {
  std::string wire;
  const auto written = append_server_event(wire, event);
  const bool writable = event.event.find('\0') == std::string::npos;
  CHECK(written.has_value() == writable && wire.empty() == !writable);
  if (!writable) return;
  const Outcome read = parse(wire.size(), wire, wire.size());
  CHECK(!read.refused && read.events.size() == 1);
  CHECK(same(read.events[0], {event.id, event.event, expected_data}));
}

std::string with_lf_only(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' && i > 0 && text[i - 1] == '\r') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t limit = (data[0] & 1) != 0 ? 24 : 1 << 20;

  const Outcome whole = parse(limit, stream, stream.size());
  check_same(parse(limit, stream, 1), whole);
  check_same(parse(limit, stream, 2 + data[0] / 2), whole);

  for (const auto& event : whole.events) check_round_trip(event, event.data);
  check_round_trip({.data = std::string(stream)}, with_lf_only(stream));
  return 0;
}
