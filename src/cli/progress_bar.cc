#include "progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr std::size_t kWidth = 24;
constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::uint64_t kStepsMax = 1000;  // more than that are bytes

std::string bar_of(const templates::Progress& progress) {
  if (progress.total == 0) return progress.done == 0 ? "" : human_bytes(progress.done);
  const std::uint64_t done = std::min(progress.done, progress.total);
  const auto filled = static_cast<std::size_t>(done * kWidth / progress.total);
  const std::string amount =
      progress.total <= kStepsMax
          ? fmt::format("{}/{}", done, progress.total)
          : fmt::format("{} of {}", human_bytes(done), human_bytes(progress.total));
  return fmt::format("[{}{}] {}", std::string(filled, '#'), std::string(kWidth - filled, '.'),
                     amount);
}

}  // namespace

ProgressBar::ProgressBar(std::string title)
    : title_(std::move(title)), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && !last_.empty()) fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::show(const templates::Progress& progress) {
  const std::string what = printable(progress.what);
  if (!terminal_) {
    if (what != last_) fmt::print(stderr, "{}: {}\n", title_, what);
    last_ = what;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (what == last_ && now - drawn_ < kRedrawInterval) return;
  last_ = what;
  drawn_ = now;
  fmt::print(stderr, "\r\x1b[K{}: {} {}", title_, what, bar_of(progress));
  std::fflush(stderr);
}

}  // namespace pons::cli
