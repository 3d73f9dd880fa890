#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/check.h"
#include "pons/http/chunked.h"

namespace pons::http {
namespace {

using State = ChunkedDecoder::Step::State;

struct Decoded {
  State state = State::kNeedMore;
  std::string payload;
  std::size_t consumed = 0;
  std::string_view reason;
  std::string trailers;
};

// Hands the input over in pieces of `piece_bytes`, each in memory of its own and exact size.
Decoded decode(std::string_view bytes, std::size_t piece_bytes) {
  ChunkedDecoder decoder;
  Decoded decoded;
  decoder.keep_trailers(decoded.trailers);
  while (decoded.state == State::kNeedMore && decoded.consumed < bytes.size()) {
    const auto part = bytes.substr(decoded.consumed, piece_bytes);
    const std::vector<char> memory(part.begin(), part.end());
    std::string_view rest(memory.data(), memory.size());
    do {
      const auto step = decoder.next(rest);
      CHECK(step.consumed <= rest.size());
      CHECK((step.state == State::kPayload) == !step.payload.empty());
      CHECK(step.payload.empty() ||
            (step.payload.data() >= rest.data() &&
             step.payload.data() + step.payload.size() == rest.data() + step.consumed));
      CHECK(step.state != State::kNeedMore || step.consumed == rest.size());
      decoded.state = step.state;
      decoded.payload += step.payload;
      decoded.consumed += step.consumed;
      decoded.reason = step.reason;
      rest.remove_prefix(step.consumed);
    } while (decoded.state == State::kPayload);
  }
  return decoded;
}

void check_chunked(std::string_view bytes) {
  const Decoded whole = decode(bytes, bytes.size() + 1);
  for (const std::size_t piece_bytes : {1, 2, 13}) {
    const Decoded pieced = decode(bytes, piece_bytes);
    CHECK(pieced.state == whole.state);
    CHECK(pieced.payload == whole.payload);
    CHECK(pieced.consumed == whole.consumed);
    CHECK(pieced.reason == whole.reason);
    CHECK(pieced.trailers == whole.trailers);
  }
  CHECK((whole.state == State::kRefused) == !whole.reason.empty());
  CHECK(whole.payload.size() + whole.trailers.size() <= whole.consumed);
  CHECK(whole.state != State::kEnd || whole.trailers.empty() || whole.trailers.ends_with("\r\n"));
}

// Any payload survives being written in chunks and read back.
void check_round_trip(std::string_view payload, std::size_t chunk_bytes) {
  std::string body;
  for (std::size_t start = 0; start < payload.size(); start += chunk_bytes) {
    const auto chunk = payload.substr(start, chunk_bytes);
    char prefix[20];
    body.append(prefix, chunk_prefix(prefix, chunk.size())).append(chunk).append(kChunkSuffix);
  }
  body.append(kLastChunk).append("next");
  const Decoded decoded = decode(body, 7);
  CHECK(decoded.state == State::kEnd);
  CHECK(decoded.payload == payload);
  CHECK(decoded.consumed == body.size() - 4);
}

}  // namespace
}  // namespace pons::http

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  pons::http::check_chunked(bytes);
  pons::http::check_round_trip(bytes, size % 37 + 1);
  return 0;
}
