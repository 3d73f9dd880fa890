// Reads the bytes of one connection on standard input, as a server would, and prints what it read:
//   {"requests": [{"method": "GET", "target": "/", "body": "<hex>"}...], "end": "clean", "status":
//   0}
// "end" is "clean", "incomplete" (the bytes stop inside a message) or "refused" with a status.

#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/http/chunked.h"
#include "pons/http/head.h"

namespace pons::http {
namespace {

enum class Read { kDone, kIncomplete, kRefused };

// Moves the body at the start of `rest` into `body`.
Read read_body(const RequestHead& head, std::string_view& rest, std::string& body) {
  if (head.framing == BodyFraming::kLength) {
    if (rest.size() < head.content_length) return Read::kIncomplete;
    body = rest.substr(0, head.content_length);
    rest.remove_prefix(head.content_length);
  }
  if (head.framing != BodyFraming::kChunked) return Read::kDone;
  ChunkedDecoder decoder;
  for (;;) {
    using State = ChunkedDecoder::Step::State;
    const auto step = decoder.next(rest);
    body += step.payload;
    rest.remove_prefix(step.consumed);
    if (step.state == State::kEnd) return Read::kDone;
    if (step.state == State::kNeedMore) return Read::kIncomplete;
    if (step.state == State::kRefused) return Read::kRefused;
  }
}

Json read_connection(std::string_view rest) {
  Json requests = Json::array();
  const auto finish = [&](const char* end, int status) {
    return Json{{"requests", requests}, {"end", end}, {"status", status}};
  };
  RequestHead head;
  while (!rest.empty()) {
    std::size_t scanned = 0;
    const auto parse = parse_request_head(rest, scanned, {}, head);
    if (parse.state == HeadParse::State::kNeedMore) return finish("incomplete", 0);
    if (parse.state == HeadParse::State::kRefused) return finish("refused", parse.status);
    rest.remove_prefix(parse.head_bytes);
    std::string body;
    const auto read = read_body(head, rest, body);
    if (read == Read::kIncomplete) return finish("incomplete", 0);
    if (read == Read::kRefused) return finish("refused", 400);
    requests.push_back({{"method", head.method}, {"target", head.target}, {"body", to_hex(body)}});
    if (!head.keep_alive) break;  // a server reads no further
  }
  return finish("clean", 0);
}

}  // namespace
}  // namespace pons::http

int main() {
  const std::string bytes(std::istreambuf_iterator<char>(std::cin), {});
  std::puts(pons::dump_json(pons::http::read_connection(bytes)).c_str());
}
