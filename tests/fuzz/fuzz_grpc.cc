// Messages of gRPC in any cut: what comes out does not depend on it, and nothing comes out of what
// is refused.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "grpc_messages.h"

using pons::Result;
using pons::egress::GrpcMessages;

namespace {

struct Outcome {
  std::string out;
  bool readable = true;
  bool operator==(const Outcome&) const = default;
};

constexpr std::size_t kOutMax = 1 << 20;

Outcome read(std::string_view coding, std::string_view bytes, std::size_t step) {
  auto messages =
      GrpcMessages::find({{"content-type", "application/grpc-web"}, {"grpc-encoding", coding}});
  Outcome outcome;
  const auto take = [&](GrpcMessages::Part part, std::string_view piece) -> Result<void> {
    if (outcome.out.size() < kOutMax) outcome.out += piece;
    if (part == GrpcMessages::Part::kUnpackedEnd && piece.size() != 1) std::abort();
    return {};
  };
  for (std::size_t at = 0; at < bytes.size() && outcome.readable; at += step)
    outcome.readable = messages->feed(bytes.substr(at, step), take).has_value();
  outcome.readable = outcome.readable && messages->finish().has_value();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr std::string_view kCodings[] = {"gzip", "deflate", "zstd", "identity"};
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view coding = kCodings[data[0] % 4];
  const Outcome whole = read(coding, bytes, bytes.size() + 1);
  const Outcome cut = read(coding, bytes, data[1] % 16 + 1);
  // What came out before a fault may differ by what a decoder had not yet handed out.
  if (whole.readable != cut.readable || (whole.readable && whole != cut)) std::abort();
  return 0;
}
