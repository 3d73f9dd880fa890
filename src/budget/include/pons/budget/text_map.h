#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace pons::budget {

struct TextHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name for it
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

// By text, and looked up without making a string of it.
template <class T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

}  // namespace pons::budget
