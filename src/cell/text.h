#pragma once

#include <stddef.h>
#include <stdint.h>

namespace pons::cell {

// Bytes that belong to somebody else and need not end with a zero.
struct Text {
  const char* data = nullptr;
  size_t size = 0;
};

Text text_of(const char* zero_terminated);
bool equal(Text a, Text b);

// Cuts off everything up to the next `separator`, or all of it, and returns that.
Text cut_until(Text* rest, char separator);

// The whole text as a number of this base; false for anything else, also for one that overflows.
bool parse_number(Text text, uint64_t base, uint64_t* number);

// Collects text in memory of a fixed size. What does not fit is left out, and `fits` says so.
class TextWriter {
 public:
  TextWriter(char* memory, size_t capacity) : memory_(memory), capacity_(capacity) {}

  TextWriter& add(Text text);
  TextWriter& add(const char* zero_terminated) { return add(text_of(zero_terminated)); }
  TextWriter& add_byte(char byte) { return add({&byte, 1}); }
  TextWriter& add_number(uint64_t number);
  // Within single quotes, as one word of a shell.
  TextWriter& add_quoted(Text text);
  // Puts the zero behind the text and returns its begin; nullptr when not everything had room.
  const char* finish();

  bool fits() const { return fits_; }
  size_t size() const { return size_; }

 private:
  char* memory_;
  size_t capacity_;
  size_t size_ = 0;
  bool fits_ = true;
};

}  // namespace pons::cell
