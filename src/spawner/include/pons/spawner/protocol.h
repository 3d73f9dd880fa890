#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pons::spawner {

// What the warden and the spawner say to each other: fixed-size messages over the channel between
// them. No text is parsed by the process that holds privileges.

inline constexpr std::uint32_t kMagic = 0x504F4E53;  // "PONS"
inline constexpr std::uint16_t kVersion = 1;

enum class RequestKind : std::uint16_t {
  kIdentify = 1,  // values: pid, uptime in ms, number of self-test attempts
  kAttempt = 2,   // makes self-test attempt number `argument`; os_error: what the kernel said
};

struct Request {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  RequestKind kind = RequestKind::kIdentify;
  std::uint64_t id = 0;  // comes back in the reply
  std::uint64_t argument = 0;
};

enum class Status : std::uint32_t { kDone = 0, kBadRequest = 1 };

inline constexpr std::int64_t kOsErrorMax = 4095;  // of the kernel

struct Reply {
  std::uint32_t magic = kMagic;
  Status status = Status::kDone;
  std::uint64_t id = 0;
  std::int64_t os_error = 0;
  std::array<std::uint64_t, 3> values{};
};

static_assert(sizeof(Request) == 24 && sizeof(Reply) == 48);

// Nothing unless size, magic, version and kind are right, or for a reply size, magic, status and
// os_error.
std::optional<Request> parse_request(std::string_view bytes);
std::optional<Reply> parse_reply(std::string_view bytes);

template <class Message>
std::string_view bytes_of(const Message& message) {
  return {reinterpret_cast<const char*>(&message), sizeof message};
}

}  // namespace pons::spawner
