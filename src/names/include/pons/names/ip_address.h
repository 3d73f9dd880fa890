#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pons/base/result.h"

struct sockaddr;          // NOLINT(readability-identifier-naming): the kernel's
struct sockaddr_storage;  // NOLINT(readability-identifier-naming): the kernel's

namespace pons::names {

// An IPv4 or IPv6 address. No zone: an address that needs one is link-local.
class IpAddress {
 public:
  using Bytes = std::array<std::uint8_t, 16>;

  // Four decimal numbers without leading zeros, or RFC 4291 text. No brackets, zones, octal,
  // hexadecimal or shortened forms.
  static std::optional<IpAddress> parse(std::string_view text);
  static IpAddress from_v4(std::uint32_t bits);  // 0x7f000001 is 127.0.0.1
  static IpAddress from_v6(const Bytes& bytes);
  static std::optional<IpAddress> from_wire(std::span<const std::uint8_t> bytes);  // 4 or 16
  static std::optional<IpAddress> from_socket(const sockaddr& address);

  bool is_v4() const { return is_v4_; }
  std::uint32_t v4_bits() const;
  std::span<const std::uint8_t> bytes() const { return {bytes_.data(), is_v4_ ? 4U : 16U}; }
  std::string to_text() const;
  // For connect and bind; returns the size.
  std::uint32_t fill_socket(sockaddr_storage& storage, std::uint16_t port) const;

  // The IPv4 address that packets to this IPv6 address may reach (mapped, compatible, NAT64, 6to4),
  // or the address itself.
  IpAddress embedded() const;

  auto operator<=>(const IpAddress&) const = default;

 private:
  Bytes bytes_{};
  bool is_v4_ = false;
};

class CidrRange {
 public:
  // "10.1.0.0/16", or one address. Bits past the prefix are refused: they hide a mistake.
  static Result<CidrRange> parse(std::string_view text);

  // Also true when the address is a wrapping of an IPv4 address in the range.
  bool contains(const IpAddress& address) const;
  const IpAddress& base() const { return base_; }
  std::string to_text() const;
  bool operator==(const CidrRange&) const = default;

 private:
  CidrRange(IpAddress base, unsigned prefix_bits) : base_(base), prefix_bits_(prefix_bits) {}
  bool holds(const IpAddress& address) const;
  IpAddress base_;
  unsigned prefix_bits_;
};

enum class AddressClass : std::uint8_t {
  kPublic,
  kPrivate,
  kLoopback,
  kLinkLocal,
  kMetadata,  // hands credentials of the machine to whoever asks: no rule opens it
  kMulticast,
  kReserved,
  kUnspecified,  // connects to the machine itself
  kBenchmark,    // where synthetic addresses are taken from: never dialled
};

std::string_view to_string(AddressClass address_class);

// Looks through every wrapping of an IPv4 address.
AddressClass classify(const IpAddress& address);

// Whether a rule that names the range may open such an address.
bool can_be_opened(AddressClass address_class);

}  // namespace pons::names
