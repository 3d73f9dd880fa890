#include "ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace pons::cell {
namespace {

uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

bool write_at(int file, const char* bytes, size_t size, uint64_t position) {
  while (size > 0) {
    const ssize_t count = pwrite(file, bytes, size, static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes += count;
    size -= static_cast<size_t>(count);
    position += static_cast<uint64_t>(count);
  }
  return true;
}

}  // namespace

void Ring::reset(uint64_t capacity) {
  if (file_ > 0) close(file_);
  file_ = 0;
  end_ = 0;
  kept_ = 0;
  capacity_ = capacity < kInlineBytes ? kInlineBytes : capacity;
}

void Ring::append(const char* bytes, size_t size) {
  if (size > capacity_) {
    lose(size - capacity_);
    bytes += size - capacity_;
    size = capacity_;
  }
  if (file_ <= 0 && end_ + size <= kInlineBytes) {
    if (size > 0) memcpy(inline_ + end_, bytes, size);
    end_ += size;
    return;
  }
  if ((file_ <= 0 && !spill()) || !write_file(bytes, size)) {
    lose(size);
    return;
  }
  end_ += size;
  if (end_ - kept_ > capacity_) kept_ = end_ - capacity_;
}

void Ring::drop() {
  if (file_ > 0) close(file_);
  file_ = 0;
  kept_ = end_;
}

// Before the first round positions are offsets, whatever the size; afterwards it grows no more.
void Ring::stop_growing() {
  if (end_ > capacity_) return;
  const uint64_t size = end_ > kLimitBytesMin ? end_ : kLimitBytesMin;
  if (size < capacity_) capacity_ = size;
}

size_t Ring::read(uint64_t offset, char* to, size_t size) const {
  if (offset < kept_ || offset >= end_) return 0;
  size = smaller(size, end_ - offset);
  if (file_ <= 0) {
    memcpy(to, inline_ + offset, size);
    return size;
  }
  size_t done = 0;
  while (done < size) {
    const uint64_t position = (offset + done) % capacity_;
    const size_t piece = smaller(size - done, capacity_ - position);
    const ssize_t count = pread(file_, to + done, piece, static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

// Inline bytes have positions equal to their offsets, so that they keep their place in the file.
bool Ring::spill() {
  const int file = memfd_create("output", MFD_CLOEXEC);
  if (file < 0) return false;
  if (ftruncate(file, static_cast<off_t>(capacity_)) != 0) {
    close(file);
    return false;
  }
  const bool in_place = kept_ == 0 && end_ <= kInlineBytes;
  if (!in_place || !write_at(file, inline_, end_, 0)) kept_ = end_;
  file_ = file;
  return true;
}

bool Ring::write_file(const char* bytes, size_t size) {
  const uint64_t position = end_ % capacity_;
  const size_t first = smaller(size, capacity_ - position);
  return write_at(file_, bytes, first, position) && write_at(file_, bytes + first, size - first, 0);
}

void Ring::lose(size_t size) {
  end_ += size;
  kept_ = end_;
}

}  // namespace pons::cell
