#include "body_memory.h"

#include <algorithm>

namespace pons::egress {

std::expected<BodyMemory, Refusal> take_body_memory(Boundary& boundary, AttachedSandbox& sandbox,
                                                    std::uint64_t bytes) {
  const std::uint64_t free = kBodyMemoryOfAll - std::min(boundary.body_memory, kBodyMemoryOfAll);
  if (sandbox.body_memory + bytes > std::min(kBodyMemoryOfSandbox, free))
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

}  // namespace pons::egress
