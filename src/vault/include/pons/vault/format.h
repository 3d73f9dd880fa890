#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::vault {

struct Swapped {
  std::string sent;  // with the value in the stub's place
  std::string rest;  // what a client wrote beside the stub: it leaves, too, and nobody has read it
};

// How a credential stands in its position: a text with one `{}`, such as "Bearer {}", "token {}" or
// "{}". "Basic USER:{}" and "Basic {}:PASSWORD" are HTTP's Basic scheme, whose base64 is undone and
// made again; a `*` in place of USER takes what the client sends there, and in place of PASSWORD
// the little that says there is none.
class Format {
 public:
  static Result<Format> parse(std::string_view text);

  const std::string& text() const { return text_; }
  // The form with the value in it; `*` of Basic renders as "x-access-token".
  std::string render(std::string_view value) const;
  // When `sent` is exactly this form with the stub in it, the form with the value in it. Schemes
  // compare without case; everything else must be exact: one space, padded canonical base64. What
  // stands at a `*` is no credential: a user is not of the shape of a token, and a password is
  // empty or "x-oauth-basic", because hosts of git go by the password.
  std::optional<Swapped> swap(std::string_view sent, std::string_view stub,
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
