#include "signature.h"

#include "pons/base/secret.h"
#include "pons/base/text.h"
#include "query.h"

namespace pons::e2b {

namespace {

std::string sha256_bytes(std::string_view text) {
  const std::string hex = sha256_hex(text);
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(*parse_hex(std::string_view(hex).substr(i, 2)));
  return bytes;
}

}  // namespace

FileRight claimed_right(const http::RequestHead& head) {
  const auto value = [&](std::string_view name) {
    return query_value(head.query(), name).value_or("");
  };
  return {.path = value("path"),
          .operation = head.method == "POST" ? "write" : "read",
          .user = value("username"),
          .expiration = value("signature_expiration"),
          .signature = value("signature")};
}

bool is_signed_with(const FileRight& right, std::string_view token) {
  if (token.empty() || right.signature.empty()) return false;
  std::string text = right.path + ":" + right.operation + ":" + right.user + ":";
  text += token;
  if (!right.expiration.empty()) text += ":" + right.expiration;
  std::string wanted = "v1_" + base64_encode(sha256_bytes(text));
  while (wanted.ends_with('=')) wanted.pop_back();
  return equal_constant_time(right.signature, wanted);
}

bool is_in_time(const FileRight& right, std::int64_t unix_seconds) {
  if (right.expiration.empty()) return true;
  const auto end = parse_decimal(right.expiration);
  return end && *end <= INT64_MAX && static_cast<std::int64_t>(*end) > unix_seconds;
}

}  // namespace pons::e2b
