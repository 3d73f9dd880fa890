#include "line_stream.h"

#include <algorithm>

#include <fmt/format.h>

namespace pons::sandbox {

namespace {

constexpr const char* kStep = "follow sandbox";
// A piece of output of the largest size, every byte of it written as \u00XX.
constexpr std::size_t kLineBytesMax = 4 * 1024 * 1024;
// Longer than several of the empty lines that say "still here" are apart.
constexpr Duration kSilenceMax = std::chrono::seconds(90);

}  // namespace

LineStream::LineStream(linux::Loop& loop, http::ClientResponse response)
    : loop_(loop), response_(std::move(response)), silent_since_(loop.now()) {}

std::optional<std::string> LineStream::take_line() {
  for (;;) {
    const std::size_t end = buffer_.find('\n', scanned_);
    if (end == std::string::npos) {
      buffer_.erase(0, begin_);
      begin_ = 0;
      scanned_ = buffer_.size();
      return std::nullopt;
    }
    std::string line = buffer_.substr(begin_, end - begin_);
    begin_ = scanned_ = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) return line;
  }
}

bool LineStream::has_next() const {
  std::size_t begin = begin_;
  std::size_t end = buffer_.find('\n', scanned_);
  for (; end != std::string::npos; end = buffer_.find('\n', begin)) {
    if (end > begin && buffer_.compare(begin, end - begin, "\r") != 0) return true;
    begin = end + 1;
  }
  return false;
}

Task<Result<std::optional<std::string>>> LineStream::next(TimePoint deadline) {
  using Line = std::optional<std::string>;
  for (;;) {
    if (auto line = take_line()) co_return Line(std::move(*line));
    if (buffer_.size() > kLineBytesMax)
      co_return make_error(ErrorCode::kLimit, kStep,
                           fmt::format("a line is longer than {} bytes", kLineBytesMax));
    const TimePoint silence_end = silent_since_ + kSilenceMax;
    const auto piece =
        co_await linux::within(loop_, std::min(deadline, silence_end), response_.read_body());
    if (!piece) {
      if (loop_.now() >= silence_end)
        co_return make_error(ErrorCode::kUnavailable, kStep, "nothing came for too long");
      co_return make_error(ErrorCode::kTimeout, kStep, "nothing came before the deadline");
    }
    if (!*piece) {
      Error error = piece->error();
      // Its own deadline for silence is the same failure to whoever follows.
      if (error.code == ErrorCode::kTimeout || error.code == ErrorCode::kIo)
        error.code = ErrorCode::kUnavailable;
      co_return error;
    }
    if ((*piece)->empty()) {
      if (!buffer_.empty())
        co_return make_error(ErrorCode::kUnavailable, kStep, "the answer ends within a line");
      co_return Line();
    }
    silent_since_ = loop_.now();
    buffer_ += **piece;
  }
}

}  // namespace pons::sandbox
