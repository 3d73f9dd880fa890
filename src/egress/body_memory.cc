#include "body_memory.h"

#include <algorithm>

namespace pons::egress {

namespace {

std::uint64_t share_of(const Boundary& boundary) {
  return std::min(kBodyMemoryOfSandbox,
                  kBodyMemoryOfAll - std::min(boundary.body_memory, kBodyMemoryOfAll));
}

}  // namespace

std::expected<BodyMemory, Refusal> take_body_memory(Boundary& boundary, AttachedSandbox& sandbox,
                                                    std::uint64_t bytes) {
  if (sandbox.body_memory + bytes > share_of(boundary))
    return std::unexpected(
        Refusal{.status = 429,
                .code = "too_many_bodies",
                .reason = "too many bodies of this sandbox are on their way",
                .hint = "wait until some have ended, or send them without coding",
                .rule = {}});
  sandbox.body_memory += bytes;
  boundary.body_memory += bytes;
  return BodyMemory({&sandbox.body_memory, &boundary.body_memory, bytes});
}

std::uint64_t answer_window(const Boundary& boundary, const AttachedSandbox& sandbox) {
  constexpr std::uint64_t kLeast = 64 * 1024;  // the protocol's own
  constexpr std::uint64_t kMost = 4 * 1024 * 1024;
  constexpr std::uint64_t kSteps = 8;
  const std::uint64_t half = share_of(boundary) / 2;
  return std::clamp((half - std::min(half, sandbox.body_memory)) / kSteps, kLeast, kMost);
}

}  // namespace pons::egress
