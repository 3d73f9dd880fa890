#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "pons/base/secret.h"

namespace pons::scan {

// For containers whose content may be or hold a secret: overwritten when freed, also when growing.
template <class T>
struct WipingAllocator {
  using value_type = T;

  WipingAllocator() = default;
  template <class U>
  WipingAllocator(const WipingAllocator<U>&) {}

  T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* data, std::size_t count) {
    wipe(data, count * sizeof(T));
    std::allocator<T>().deallocate(data, count);
  }
  bool operator==(const WipingAllocator&) const = default;
};

using WipedBytes = std::vector<char, WipingAllocator<char>>;

inline std::string_view view_of(const WipedBytes& bytes) {
  return {bytes.data(), bytes.size()};
}

inline void append(WipedBytes& bytes, std::string_view text) {
  bytes.insert(bytes.end(), text.begin(), text.end());
}

}  // namespace pons::scan
