#pragma once

#include <chrono>
#include <string>

#include "pons/templates/progress.h"

namespace pons::cli {

// One line on standard error that is written over and over. Not on a terminal: a line whenever what
// is done changes, so that a log stays readable.
class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();  // removes it from the terminal
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const templates::Progress& progress);

 private:
  std::string title_;
  std::string last_;
  bool terminal_;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace pons::cli
