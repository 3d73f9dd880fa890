#include "text.h"

#include <string.h>

namespace pons::cell {

Text text_of(const char* zero_terminated) {
  return {zero_terminated, strlen(zero_terminated)};
}

bool equal(Text a, Text b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

Text cut_until(Text* rest, char separator) {
  size_t size = 0;
  while (size < rest->size && rest->data[size] != separator) ++size;
  const Text piece{rest->data, size};
  const size_t used = size < rest->size ? size + 1 : size;
  *rest = {rest->data + used, rest->size - used};
  return piece;
}

bool parse_number(Text text, uint64_t base, uint64_t* number) {
  if (text.size == 0) return false;
  uint64_t value = 0;
  for (size_t i = 0; i < text.size; ++i) {
    const char c = text.data[i];
    if (c < '0' || static_cast<uint64_t>(c - '0') >= base) return false;
    if (__builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(c - '0'), &value)) {
      return false;
    }
  }
  *number = value;
  return true;
}

TextWriter& TextWriter::add(Text text) {
  if (text.size > capacity_ - size_) {
    fits_ = false;
    return *this;
  }
  if (text.size > 0) memcpy(memory_ + size_, text.data, text.size);
  size_ += text.size;
  return *this;
}

TextWriter& TextWriter::add_number(uint64_t number) {
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return add({digits + at, sizeof digits - at});
}

TextWriter& TextWriter::add_quoted(Text text) {
  add_byte('\'');
  while (text.size > 0) {
    const size_t before = text.size;
    const Text piece = cut_until(&text, '\'');
    add(piece);
    if (piece.size < before) add("'\\''");
  }
  return add_byte('\'');
}

const char* TextWriter::finish() {
  add_byte('\0');
  return fits_ ? memory_ : nullptr;
}

}  // namespace pons::cell
