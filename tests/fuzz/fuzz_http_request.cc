#include "head_properties.h"

namespace pons::http {
namespace {

void check_same(const RequestHead& a, const RequestHead& b) {
  check_same_head(a, b);
  CHECK(a.method == b.method);
  CHECK(a.target == b.target);
  CHECK(a.host == b.host);
  CHECK(a.expect_continue == b.expect_continue);
}

std::string serialise(const RequestHead& head) {
  std::string text;
  text.append(head.method).append(" ").append(head.target);
  text.append(head.minor_version == 1 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
  for (const Field& field : head.fields) append_field(text, field.name, field.value);
  return text.append("\r\n");
}

void check_request(std::string_view bytes, const HeadLimits& limits) {
  const auto parse = [&](std::string_view buffer, std::size_t& scanned, RequestHead& out) {
    return parse_request_head(buffer, scanned, limits, out);
  };
  RequestHead head;
  const auto verdict = parse_every_way(bytes, limits, parse, check_same, head);
  if (verdict.state != HeadParse::State::kDone) return;

  check_inside(head.method, bytes);
  check_inside(head.target, bytes);
  check_inside(head.query(), bytes);
  CHECK(is_token(head.method));
  CHECK(!head.target.empty() && head.target.size() <= limits.target_bytes);
  CHECK(head.minor_version == 0 || !head.host.empty());
  CHECK(head.framing != BodyFraming::kUntilClose);
  CHECK(head.method == "CONNECT" || head.path().starts_with('/') || head.path() == "*");
  CHECK(!(head.find("content-length") && head.find("transfer-encoding")));

  const std::string again = serialise(head);
  RequestHead reread;
  std::size_t scanned = 0;
  const auto second = parse_request_head(again, scanned, {.bytes = 32 * 1024}, reread);
  CHECK(second.state == HeadParse::State::kDone);
  CHECK(second.head_bytes == again.size());
  check_same(head, reread);
}

}  // namespace
}  // namespace pons::http

// The first byte chooses the limits; the rest is what a client sends.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  pons::http::check_request(bytes, pons::http::fuzz_limits(data[0]));
  return 0;
}
