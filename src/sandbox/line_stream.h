#pragma once

#include <optional>
#include <string>

#include "pons/base/clock.h"
#include "pons/http/client.h"

namespace pons::sandbox {

// The lines of an application/x-ndjson answer, which may take days to end.
class LineStream {
 public:
  // `loop` and the client of the response outlive it.
  LineStream(linux::Loop& loop, http::ClientResponse response);

  // The next line that is not empty, or nothing at the end of the answer. The deadline passing is
  // kTimeout and loses nothing; every other error is final. An answer that is cut off, or that is
  // silent for so long that even its empty lines stay away, is kUnavailable.
  Task<Result<std::optional<std::string>>> next(TimePoint deadline);
  // True when next() has a line already.
  bool has_next() const;

 private:
  std::optional<std::string> take_line();

  linux::Loop& loop_;
  http::ClientResponse response_;
  std::string buffer_;
  std::size_t begin_ = 0;    // of the line being read
  std::size_t scanned_ = 0;  // no line end before this
  TimePoint silent_since_;
};

}  // namespace pons::sandbox
