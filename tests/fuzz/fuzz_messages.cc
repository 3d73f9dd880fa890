// The first byte picks what the rest is read as: a request, an answer, a stream of events (one a
// line), or a provider's error. Holds: a request that is read can be written and read again to the
// same; an answer too; the events of a stream come in the order that answer.h promises.

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/models/protocol.h"
#include "pons/models/tool_names.h"

namespace {

using namespace pons::models;

bool is_of_another(const pons::models::Part& part) {
  const auto* thinking = std::get_if<ThinkingPart>(&part.content);
  return thinking != nullptr && thinking->author != Protocol::kMessages;
}

// Thinking of another provider is left out on the way to this one.
void remove_what_is_not_sent(Request& request) {
  for (Message& message : request.messages) std::erase_if(message.parts, is_of_another);
}

void check_request(std::string_view body) {
  auto request = messages_protocol().read_request(body);
  if (!request) return;
  remove_what_is_not_sent(*request);
  Omitted omitted;
  const auto written = messages_protocol().write_request(*request, request->model, omitted);
  CHECK(written && omitted.empty());
  const auto again = messages_protocol().read_request(*written);
  CHECK(again && *again == *request);
  // As if it came from elsewhere: written or refused, and what is written can be read.
  request->protocol = Protocol::kChat;
  const ToolNames names(*request, Protocol::kMessages);
  const auto foreign = messages_protocol().write_request(*request, "claude-sonnet-4-5", omitted);
  if (foreign) CHECK(messages_protocol().read_request(*foreign));
}

void check_answer(std::string_view body) {
  auto answer = messages_protocol().read_answer(body);
  if (!answer) return;
  const auto again = messages_protocol().read_answer(messages_protocol().write_answer(*answer, {}));
  CHECK(again && again->parts.size() == answer->parts.size() && again->usage == answer->usage);
}

class OrderCheck {
 public:
  void take(const AnswerEvent& event) {
    CHECK(!over_);
    if (std::holds_alternative<Failure>(event)) {
      over_ = true;
    } else if (std::holds_alternative<AnswerBegins>(event)) {
      CHECK(!began_);
      began_ = true;
    } else {
      CHECK(began_);
      const bool starts = std::holds_alternative<PartBegins>(event);
      over_ = std::holds_alternative<AnswerEnds>(event);
      CHECK(open_ == !(starts || over_));
      if (starts) open_ = true;
      if (std::holds_alternative<PartEnds>(event)) open_ = false;
    }
  }
  bool over() const { return over_; }

 private:
  bool began_ = false;
  bool open_ = false;
  bool over_ = false;
};

void check_stream(std::string_view lines) {
  const auto reader = messages_protocol().stream_reader();
  const auto writer = messages_protocol().stream_writer({});
  const auto watch = messages_protocol().stream_watch();
  OrderCheck order;
  std::string out;
  const auto sink = [&](const AnswerEvent& event) {
    order.take(event);
    writer->take(event, out);
  };
  for (const std::string_view line : pons::split(lines, '\n')) {
    const pons::http::ServerEvent event{.data = std::string(line)};
    (void)watch->see(event);
    if (!reader->feed(event, sink) || order.over()) break;
  }
  CHECK(reader->finish(sink).has_value() == order.over());
  pons::http::EventStreamParser parser;
  CHECK(
      parser.feed(out, [](const pons::http::ServerEvent& event) { CHECK(!event.event.empty()); }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] & 3U) {
    case 0:
      check_request(text);
      break;
    case 1:
      check_answer(text);
      break;
    case 2:
      check_stream(text);
      break;
    default:
      (void)messages_protocol().write_error(messages_protocol().read_error(400, text), "r");
      (void)messages_protocol().usage_of(text);
  }
  return 0;
}
