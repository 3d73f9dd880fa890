#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace pons::http {

inline std::span<iovec> skip_empty(std::span<iovec> spans) {
  while (!spans.empty() && spans.front().iov_len == 0) spans = spans.subspan(1);
  return spans;
}

// What is left after the first `bytes` were written.
inline std::span<iovec> advance(std::span<iovec> spans, std::size_t bytes) {
  while (bytes > 0) {
    iovec& first = spans.front();
    const std::size_t step = std::min(bytes, first.iov_len);
    first.iov_base = static_cast<char*>(first.iov_base) + step;
    first.iov_len -= step;
    bytes -= step;
    spans = skip_empty(spans);
  }
  return spans;
}

}  // namespace pons::http
