#pragma once

#include <utility>

namespace pons {

// Owns one resource that must be given back. Traits: `Value`, `static Value empty()`, `static void
// close(Value) noexcept`. Written once so that moving over a live object, moving onto itself and
// releasing are right once.
template <class Traits>
class UniqueHandle {
 public:
  using Value = typename Traits::Value;

  UniqueHandle() = default;
  explicit UniqueHandle(Value value) : value_(std::move(value)) {}  // adopts
  UniqueHandle(UniqueHandle&& other) noexcept : value_(other.release()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    UniqueHandle incoming(std::move(other));
    std::swap(value_, incoming.value_);  // the old resource dies with `incoming`
    return *this;
  }
  ~UniqueHandle() {
    if (*this) Traits::close(value_);
  }

  explicit operator bool() const { return value_ != Traits::empty(); }
  const Value& get() const { return value_; }
  [[nodiscard]] Value release() { return std::exchange(value_, Traits::empty()); }
  void reset() { *this = UniqueHandle(); }

 private:
  Value value_ = Traits::empty();
};

}  // namespace pons
