// A request, an answer, a refusal or a stream of Chat Completions from anyone; the first byte says
// which. Holds: a request that is read can be written and reads as the same request; the events of
// a stream are in the order that answer.h states, and a client's stream can be written from them.

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/models/protocol.h"

namespace {

using namespace pons::models;

// What is not written for this protocol's providers, or is asked for in any case.
void normalise(Request& request) {
  request.stream_usage = true;
  for (Message& message : request.messages)
    std::erase_if(message.parts, [](const Part& part) {
      const auto* const thinking = std::get_if<ThinkingPart>(&part.content);
      return thinking != nullptr && thinking->author != Protocol::kChat;
    });
}

void fuzz_request(std::string_view body) {
  auto request = chat_protocol().read_request(body);
  if (!request) return;
  Omitted omitted;
  const auto written = chat_protocol().write_request(*request, request->model, omitted);
  CHECK(written && omitted.empty());
  auto again = chat_protocol().read_request(*written);
  CHECK(again);
  normalise(*request);
  normalise(*again);
  CHECK(*again == *request);
  // Nothing that it says may be lost in silence or break the writer when it came from elsewhere.
  request->protocol = Protocol::kResponses;
  if (const auto other = chat_protocol().write_request(*request, "m", omitted))
    CHECK(chat_protocol().read_request(*other));
}

// Follows the order of the events.
class OrderCheck {
 public:
  void take(const AnswerEvent& event) {
    CHECK(!over_);
    if (std::holds_alternative<Failure>(event)) {
      over_ = true;
    } else if (std::holds_alternative<AnswerBegins>(event)) {
      CHECK(!began_);
      began_ = true;
    } else if (std::holds_alternative<AnswerEnds>(event)) {
      CHECK(began_ && !open_);
      over_ = true;
    } else if (std::holds_alternative<PartBegins>(event)) {
      CHECK(began_ && !open_);
      open_ = true;
    } else {
      CHECK(open_);
      open_ = !std::holds_alternative<PartEnds>(event);
    }
  }

 private:
  bool began_ = false;
  bool open_ = false;
  bool over_ = false;
};

void fuzz_stream(std::string_view bytes) {
  const auto reader = chat_protocol().stream_reader();
  const auto watch = chat_protocol().stream_watch();
  const Request client;
  const auto writer = chat_protocol().stream_writer(client);
  OrderCheck order;
  AnswerBuilder built;
  std::string out;
  const AnswerSink sink = [&](const AnswerEvent& event) {
    order.take(event);
    built.take(event);
    writer->take(event, out);
  };
  pons::http::EventStreamParser parser;
  bool readable = true;
  (void)parser.feed(bytes, [&](const pons::http::ServerEvent& event) {
    watch->see(event);
    readable = readable && reader->feed(event, sink).has_value();
  });
  if (!readable || !reader->finish(sink)) return;
  CHECK(built.is_whole() || built.failure());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 'r':
      fuzz_request(text);
      break;
    case 'a':
      if (const auto answer = chat_protocol().read_answer(text))
        CHECK(chat_protocol().read_answer(chat_protocol().write_answer(*answer, Request{})));
      break;
    case 'e':
      CHECK(!chat_protocol().read_error(500, text).message.empty());
      break;
    default:
      fuzz_stream(text);
  }
  return 0;
}
