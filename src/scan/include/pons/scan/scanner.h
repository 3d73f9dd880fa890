#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "pons/scan/needle_set.h"

namespace pons::scan {

class Detector;

// Looks for needles in one stream of bytes: one direction of a message or of a connection. Every
// byte is looked at, and the outcome does not depend on how the stream is cut into pieces.
class Scanner {
 public:
  explicit Scanner(NeedleSets sets);
  Scanner(Scanner&&) noexcept;
  Scanner& operator=(Scanner&&) noexcept;
  ~Scanner();

  // Says what is found when a needle ends within the piece; then the piece must not be sent on.
  // The first finding of the stream stays and is returned by every later call.
  std::optional<Finding> feed(std::string_view piece);
  // The stream ends here; an unfinished escape sequence counts as plain text.
  std::optional<Finding> finish();

  std::size_t memory_bytes() const;  // held between calls

 private:
  std::unique_ptr<Detector> detector_;
  std::optional<Finding> found_;
};

// The whole text at once.
std::optional<Finding> scan_text(const NeedleSets& sets, std::string_view text);

}  // namespace pons::scan
