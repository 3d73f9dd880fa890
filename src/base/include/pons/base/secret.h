#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pons {

// Overwrites memory in a way the compiler may not remove.
void wipe(void* data, std::size_t size) noexcept;

// Holds one secret value: locked in memory where the limit allows, left out of core dumps, wiped on
// destruction. It cannot be copied, printed or logged; every use of the clear text is a searchable
// call of reveal().
class Secret {
 public:
  Secret() = default;
  // Copies the bytes and wipes the argument.
  explicit Secret(std::string&& clear_text);
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret();

  std::string_view reveal() const { return {data_, size_}; }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

// Takes the same time wherever the first difference is. The lengths are not hidden.
bool equal_constant_time(std::string_view a, std::string_view b) noexcept;

}  // namespace pons
