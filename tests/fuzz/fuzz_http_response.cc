#include "head_properties.h"

namespace pons::http {
namespace {

void check_same(const ResponseHead& a, const ResponseHead& b) {
  check_same_head(a, b);
  CHECK(a.status == b.status);
  CHECK(a.reason == b.reason);
}

std::string serialise(const ResponseHead& head) {
  std::string text = head.minor_version == 1 ? "HTTP/1.1 " : "HTTP/1.0 ";
  text.append(std::to_string(head.status)).append(" ").append(head.reason).append("\r\n");
  for (const Field& field : head.fields) append_field(text, field.name, field.value);
  return text.append("\r\n");
}

void check_response(std::string_view bytes, const HeadLimits& limits, std::string_view method) {
  const auto parse = [&](std::string_view buffer, std::size_t& scanned, ResponseHead& out) {
    return parse_response_head(buffer, scanned, limits, method, out);
  };
  ResponseHead head;
  const auto verdict = parse_every_way(bytes, limits, parse, check_same, head);
  CHECK(verdict.status == 0 || verdict.status == 502);
  if (verdict.state != HeadParse::State::kDone) return;

  check_inside(head.reason, bytes);
  CHECK(head.status >= 100 && head.status <= 599);
  CHECK(is_field_value(head.reason));
  CHECK(head.framing != BodyFraming::kUntilClose || !head.keep_alive);
  CHECK(head.framing == BodyFraming::kNone || (head.status >= 200 && method != "HEAD"));

  const std::string again = serialise(head);
  ResponseHead reread;
  std::size_t scanned = 0;
  const auto second = parse_response_head(again, scanned, {.bytes = 32 * 1024}, method, reread);
  CHECK(second.state == HeadParse::State::kDone);
  CHECK(second.head_bytes == again.size());
  check_same(head, reread);
}

}  // namespace
}  // namespace pons::http

// The first byte chooses the limits and the method; the rest is what a server sends.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr std::string_view kMethods[] = {"GET", "HEAD", "CONNECT", "POST"};
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  pons::http::check_response(bytes, pons::http::fuzz_limits(data[0]), kMethods[data[0] / 4 % 4]);
  return 0;
}
