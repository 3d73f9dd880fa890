#pragma once

#include <stddef.h>
#include <stdint.h>

namespace pons::cell {

// The last bytes of a stream, addressed by their offset from the stream's begin. The first ones
// stay in the object; a stream that grows past them moves to a memory file of fixed size, which is
// written round and round. All zero is a ring without bytes, so that one in BSS costs no memory.
class Ring {
 public:
  // Of at most this many bytes. Drops what was there.
  void reset(uint64_t capacity);

  // Always takes everything: the oldest bytes make room. Bytes for which the kernel has no memory
  // are lost like ones that were overwritten.
  void append(const char* bytes, size_t size);

  // Copies what is there from `offset` on; 0 when nothing is. Offsets before kept() are an error
  // of the caller and give nothing.
  size_t read(uint64_t offset, char* to, size_t size) const;

  // Lets go of every byte that is there.
  void drop();
  // From now on it takes no more memory than it does, and it takes at least kLimitBytesMin.
  void stop_growing();
  static constexpr uint64_t kLimitBytesMin = 64 * 1024;

  uint64_t memory_bytes() const { return file_ <= 0 ? 0 : end_ < capacity_ ? end_ : capacity_; }
  uint64_t end() const { return end_; }
  uint64_t kept() const { return kept_; }
  uint64_t capacity() const { return capacity_; }

 private:
  static constexpr size_t kInlineBytes = 2048;

  bool spill();
  bool write_file(const char* bytes, size_t size);
  void lose(size_t size);

  uint64_t capacity_;
  uint64_t end_;
  uint64_t kept_;
  int file_;  // 0: none yet; descriptor 0 is never one
  char inline_[kInlineBytes];
};

}  // namespace pons::cell
