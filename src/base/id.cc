#include "pons/base/id.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "pons/base/check.h"

namespace pons {

void random_bytes(void* out, std::size_t size) noexcept {
  auto* cursor = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = getrandom(cursor, size, 0);
    if (got < 0 && errno == EINTR) continue;
    CHECK(got > 0);
    cursor += got;
    size -= static_cast<std::size_t>(got);
  }
}

std::string random_text(std::size_t length) {
  // 32 symbols, so that 5 random bits make one without bias; no letters that look alike.
  static constexpr char kAlphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
  std::string text(length, '\0');
  random_bytes(text.data(), text.size());
  for (char& c : text) c = kAlphabet[static_cast<unsigned char>(c) & 31];
  return text;
}

bool is_id_text(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

}  // namespace pons
