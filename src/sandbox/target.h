#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace pons::sandbox {

// The target of a request: segments and query values of any bytes become one legal text.
class Target {
 public:
  explicit Target(std::initializer_list<std::string_view> segments);
  Target& with(std::string_view name, std::string_view value) &;
  Target&& with(std::string_view name, std::string_view value) && {
    return std::move(this->with(name, value));
  }
  Target&& with(std::string_view name, std::unsigned_integral auto value) && {
    return std::move(this->with(name, std::to_string(value)));
  }

  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
  bool has_query_ = false;
};

}  // namespace pons::sandbox
