// The first byte is the length of the boundary, which follows; the rest is a body. Holds: what
// comes out does not depend on where the input is cut, what is kept between two calls is bounded,
// and data that was written as a part is read as it was.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/http/multipart.h"

namespace {

using pons::http::MultipartParser;
using State = MultipartParser::Step::State;

constexpr std::size_t kKeptBytesMax =
    MultipartParser::kHeadBytesMax + MultipartParser::kPreambleBytesMax;

std::string read(std::string_view boundary, std::string_view body, std::size_t piece) {
  MultipartParser parser(boundary);
  std::string buffer;
  std::string out;
  for (;;) {
    const auto step = parser.next(buffer);
    CHECK(step.consumed <= buffer.size());
    CHECK((step.state == State::kData) == !step.data.empty());
    if (step.state == State::kRefused) return out + "(refused)" + step.reason;
    if (step.state == State::kPart)
      out += "(" + parser.head().name + "," + parser.head().file_name.value_or("-") + ")";
    out += step.data;
    if (step.state == State::kPartEnd) out += "(end)";
    if (step.state == State::kEnd) return out + "(all)";
    buffer.erase(0, step.consumed);
    if (step.state != State::kNeedMore || step.consumed > 0) continue;
    CHECK(buffer.size() <= kKeptBytesMax + 200);
    if (body.empty()) return out + "(open)";
    buffer += body.substr(0, piece);
    body.remove_prefix(std::min(piece, body.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string_view boundary = text.substr(0, data[0] % 71);
  const std::string_view body = text.substr(boundary.size());
  const std::string whole = read(boundary, body, 150);
  for (const std::size_t piece : {1, 7}) CHECK(read(boundary, body, piece) == whole);

  const std::string type = "multipart/form-data; boundary=\"" + std::string(boundary) + "\"";
  if (pons::http::multipart_boundary(type) != boundary) return 0;
  const std::string delimiter = "\r\n--" + std::string(boundary);
  if (("\r\n" + std::string(body)).find(delimiter) != std::string::npos) return 0;
  const std::string form =
      delimiter.substr(2) + "\r\n\r\n" + std::string(body) + delimiter + "--\r\n";
  // The body's own line end may complete a boundary with ours; then it is not what was meant.
  if ((std::string(body) + delimiter).find(delimiter) != body.size()) return 0;
  CHECK(read(boundary, form, 13) == "(,-)" + std::string(body) + "(end)(all)");
  return 0;
}
