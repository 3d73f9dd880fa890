#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "pons/models/protocol.h"

// A client's request, a provider's answer and a provider's stream, all of which anyone may have
// written. What is read as a request can be written and is then read as the same.

using namespace pons;
using namespace pons::models;

namespace {

bool carries_foreign_thinking(const Request& request) {
  for (const Message& message : request.messages)
    for (const Part& part : message.parts)
      if (const auto* thinking = std::get_if<ThinkingPart>(&part.content))
        if (thinking->author != Protocol::kResponses) return true;
  return false;
}

void try_request(std::string_view text) {
  const ProtocolText& protocol = responses_protocol();
  const auto first = protocol.read_request(text);
  if (!first) return;
  Omitted omitted;
  const auto written = protocol.write_request(*first, first->model, omitted);
  if (!written || !omitted.empty()) std::abort();
  if (carries_foreign_thinking(*first)) return;  // stays behind
  const auto second = protocol.read_request(*written);
  if (!second || *second != *first) std::abort();
}

// Whatever a provider says, the events that come of it are in order.
void try_stream(std::string_view text) {
  const ProtocolText& protocol = responses_protocol();
  const auto reader = protocol.stream_reader();
  const auto writer = protocol.stream_writer({});
  const auto watch = protocol.stream_watch();
  bool begun = false;
  bool open = false;
  bool over = false;
  std::string out;
  const AnswerSink sink = [&](const AnswerEvent& event) {
    const bool begins = std::holds_alternative<AnswerBegins>(event);
    const bool part = std::holds_alternative<PartBegins>(event);
    const bool failure = std::holds_alternative<Failure>(event);
    const bool ends = std::holds_alternative<AnswerEnds>(event);
    if (over || (begins && begun) || (!begins && !begun && !failure)) std::abort();
    if (!failure && !begins && !ends && part == open) std::abort();
    if (ends && open) std::abort();
    begun = begun || begins;
    open = (open || part) && !std::holds_alternative<PartEnds>(event);
    over = failure || ends;
    writer->take(event, out);
  };
  http::EventStreamParser parser;
  bool refused = false;
  (void)parser.feed(text, [&](const http::ServerEvent& event) {
    (void)watch->see(event);
    if (!refused && !over) refused = !reader->feed(event, sink);
  });
  if (!refused && reader->finish(sink).has_value() != over) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_request(text);
  if (const auto answer = responses_protocol().read_answer(text))
    (void)responses_protocol().write_answer(*answer, {});
  (void)responses_protocol().usage_of(text);
  (void)responses_protocol().read_error(400, text);
  try_stream(text);
  return 0;
}
