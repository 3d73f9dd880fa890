#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::vault {

// How a credential stands in its position: a text with one `{}`, such as "Bearer {}", "token {}" or
// "{}". "Basic USER:{}" and "Basic {}:PASSWORD" are HTTP's Basic scheme, whose base64 is undone and
// made again; a `*` in place of USER or PASSWORD takes whatever the client sends there.
class Format {
 public:
  static Result<Format> parse(std::string_view text);

  const std::string& text() const { return text_; }
  // The form with the value in it; `*` of Basic renders as "x-access-token".
  std::string render(std::string_view value) const;
  // When `sent` is exactly this form with the stub in it, the form with the value in it. Schemes
  // compare without case; everything else must be exact: one space, padded canonical base64.
  std::optional<std::string> swap(std::string_view sent, std::string_view stub,
                                  std::string_view value) const;

  bool operator==(const Format&) const = default;

 private:
  std::string text_;
  std::string scheme_;  // up to and including its space; empty when there is none
  std::string before_;
  std::string after_;
  bool basic_ = false;
};

}  // namespace pons::vault
