#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::names {

// The one canonical form of a DNS name: lower case, no trailing dot, A-labels only, never something
// that any program could read as an address. Whatever names a host (DNS, SNI, Host, a rule) becomes
// a HostName once and is compared only as such.
class HostName {
 public:
  // Hostile text of any length. The error says what is wrong and never repeats unprintable bytes.
  static Result<HostName> parse(std::string_view text);

  const std::string& text() const { return text_; }
  bool is_single_label() const { return text_.find('.') == std::string::npos; }
  std::string_view first_label() const {
    return std::string_view(text_).substr(0, text_.find('.'));
  }
  // What follows the first label; empty for a single label.
  std::string_view parent() const;
  // True for the labels below `suffix`, at any depth, and not for `suffix` itself.
  bool is_below(std::string_view suffix) const;

  auto operator<=>(const HostName&) const = default;

 private:
  explicit HostName(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace pons::names

template <>
struct std::hash<pons::names::HostName> {
  std::size_t operator()(const pons::names::HostName& name) const noexcept {
    return std::hash<std::string>{}(name.text());
  }
};
