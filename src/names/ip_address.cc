#include "pons/names/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::names {

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  // inet_pton reads exactly the two strict forms, but ends at a NUL.
  char copy[INET6_ADDRSTRLEN] = {};
  if (text.size() >= sizeof copy || text.contains('\0')) return std::nullopt;
  text.copy(copy, text.size());
  IpAddress address;
  address.is_v4_ = !text.contains(':');
  const int family = address.is_v4_ ? AF_INET : AF_INET6;
  if (inet_pton(family, copy, address.bytes_.data()) != 1) return std::nullopt;
  return address;
}

IpAddress IpAddress::from_v4(std::uint32_t bits) {
  IpAddress address;
  address.is_v4_ = true;
  const std::uint32_t wire = htonl(bits);
  std::memcpy(address.bytes_.data(), &wire, sizeof wire);
  return address;
}

IpAddress IpAddress::from_v6(const Bytes& bytes) {
  IpAddress address;
  address.bytes_ = bytes;
  return address;
}

std::optional<IpAddress> IpAddress::from_wire(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != 4 && bytes.size() != 16) return std::nullopt;
  IpAddress address;
  address.is_v4_ = bytes.size() == 4;
  std::ranges::copy(bytes, address.bytes_.begin());
  return address;
}

std::optional<IpAddress> IpAddress::from_socket(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return from_v4(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr));
  if (address.sa_family == AF_INET6)
    return from_wire(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr.s6_addr);
  return std::nullopt;
}

std::uint32_t IpAddress::v4_bits() const {
  CHECK(is_v4_);
  std::uint32_t wire = 0;
  std::memcpy(&wire, bytes_.data(), sizeof wire);
  return ntohl(wire);
}

std::string IpAddress::to_text() const {
  char text[INET6_ADDRSTRLEN] = {};
  CHECK(inet_ntop(is_v4_ ? AF_INET : AF_INET6, bytes_.data(), text, sizeof text) != nullptr);
  return text;
}

std::uint32_t IpAddress::fill_socket(sockaddr_storage& storage, std::uint16_t port) const {
  storage = {};
  if (is_v4_) {
    auto& socket = reinterpret_cast<sockaddr_in&>(storage);
    socket.sin_family = AF_INET;
    socket.sin_port = htons(port);
    std::memcpy(&socket.sin_addr, bytes_.data(), 4);
    return sizeof socket;
  }
  auto& socket = reinterpret_cast<sockaddr_in6&>(storage);
  socket.sin6_family = AF_INET6;
  socket.sin6_port = htons(port);
  std::memcpy(&socket.sin6_addr, bytes_.data(), 16);
  return sizeof socket;
}

IpAddress IpAddress::embedded() const {
  if (is_v4_) return *this;
  const auto starts_with = [this](std::initializer_list<std::uint8_t> prefix) {
    return std::ranges::equal(prefix, std::span(bytes_).first(prefix.size()));
  };
  const auto v4_at = [this](std::size_t offset) {
    return *from_wire(std::span(bytes_).subspan(offset, 4));
  };
  if (starts_with({0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0})) return v4_at(12);  // NAT64
  if (starts_with({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF})) return v4_at(12);     // mapped
  if (starts_with({0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0})) return v4_at(12);     // translated
  if (starts_with({0x20, 0x02})) return v4_at(2);                                    // 6to4
  const bool compatible = starts_with({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  if (compatible && v4_at(12).v4_bits() > 1) return v4_at(12);  // not :: and ::1
  return *this;
}

Result<CidrRange> CidrRange::parse(std::string_view text) {
  const auto refuse = [](const char* why) {
    return make_error(ErrorCode::kInvalid, "read address range", why);
  };
  const std::size_t slash = text.find('/');
  const auto base = IpAddress::parse(text.substr(0, slash));
  if (!base) return refuse("not an address range: write it like 10.1.0.0/16 or 2001:db8::/32");
  const auto bits_max = static_cast<unsigned>(base->bytes().size() * 8);
  if (slash == std::string_view::npos) return CidrRange(*base, bits_max);
  const std::string_view digits = text.substr(slash + 1);
  const auto prefix_bits = parse_decimal(digits);
  if (!prefix_bits || *prefix_bits > bits_max || (digits.size() > 1 && digits.starts_with('0')))
    return refuse("the prefix length is not a number of the address's bits");
  const CidrRange range(*base, static_cast<unsigned>(*prefix_bits));
  for (unsigned bit = range.prefix_bits_; bit < bits_max; ++bit)
    if ((base->bytes()[bit / 8] >> (7 - bit % 8) & 1) != 0)
      return refuse(
          "the address has bits past the prefix length: clear them or lengthen the prefix");
  return range;
}

bool CidrRange::holds(const IpAddress& address) const {
  if (address.is_v4() != base_.is_v4()) return false;
  const auto a = address.bytes();
  const auto b = base_.bytes();
  const std::size_t whole = prefix_bits_ / 8;
  if (!std::ranges::equal(a.first(whole), b.first(whole))) return false;
  const unsigned rest = prefix_bits_ % 8;
  return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

bool CidrRange::contains(const IpAddress& address) const {
  return holds(address) || holds(address.embedded());
}

std::string CidrRange::to_text() const {
  return fmt::format("{}/{}", base_.to_text(), prefix_bits_);
}

}  // namespace pons::names
