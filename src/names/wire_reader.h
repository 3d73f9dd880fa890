#pragma once

#include <cstdint>
#include <string_view>

namespace pons::names {

// Reads numbers in network order. Past the end it gives zeros and remembers: ask `failed` once.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - offset_) {
      failed_ = true;
      return {};
    }
    const auto piece = bytes_.substr(offset_, count);
    offset_ += count;
    return piece;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return number(4); }

  std::size_t offset() const { return offset_; }
  void move_to(std::size_t offset) { offset_ = offset; }
  bool at_end() const { return offset_ == bytes_.size(); }
  bool failed() const { return failed_; }

 private:
  std::uint32_t number(std::size_t count) {
    std::uint32_t value = 0;
    for (const char c : take(count)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }

  std::string_view bytes_;
  std::size_t offset_ = 0;
  bool failed_ = false;
};

}  // namespace pons::names
