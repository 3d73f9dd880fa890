#pragma once

#include <cstdint>

#include "attached_sandbox.h"
#include "pons/base/unique_handle.h"
#include "refusal.h"

namespace pons::egress {

// Memory for bodies under way. It is counted before it is used, as the most that it can become: a
// few KiB that come in can fill a decoder's window of many MiB.
inline constexpr std::uint64_t kBodyMemoryOfSandbox = 64 << 20;
inline constexpr std::uint64_t kBodyMemoryOfAll = 512 << 20;

struct BodyMemoryTraits {
  struct Value {
    std::uint64_t* of_sandbox = nullptr;
    std::uint64_t* of_all = nullptr;
    std::uint64_t bytes = 0;
    bool operator==(const Value&) const = default;
  };
  static Value empty() { return {}; }
  static void close(const Value& value) noexcept {
    *value.of_sandbox -= value.bytes;
    *value.of_all -= value.bytes;
  }
};
// Outlived by the boundary and by the sandbox.
using BodyMemory = UniqueHandle<BodyMemoryTraits>;

// The refusal when the sandbox has its share already, which is never more than what is free.
std::expected<BodyMemory, Refusal> take_body_memory(Boundary& boundary, AttachedSandbox& sandbox,
                                                    std::uint64_t bytes);

// Of one stream of HTTP/2: what was written to its client, or to its host, and is not sent.
inline constexpr std::size_t kStreamQueueBytes = 32 * 1024;

// How much a host may send over a connection of HTTP/2 before it is taken: the more, the fewer of
// them the sandbox has, and all of them together half of its share. To be taken as above.
std::uint64_t answer_window(const Boundary& boundary, const AttachedSandbox& sandbox);

}  // namespace pons::egress
