#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace pons::supervisor {

// What a role writes to its standard error, as lines. The role may be in an attacker's hands, and
// its lines end on the operator's terminal: control characters become '?', except tabs and colours.
class RoleLog {
 public:
  static constexpr std::size_t kLineBytesMax = 16 * 1024;  // longer ones are cut into several
  static constexpr std::size_t kLastLines = 20;

  using Sink = std::function<void(std::string_view line)>;

  void feed(std::string_view bytes, const Sink& sink);
  void finish(const Sink& sink);  // what has no line feed yet is a line too

  std::string last_words() const;  // the last lines, indented

 private:
  void emit(const Sink& sink);
  std::string pending_;
  std::deque<std::string> last_lines_;
};

}  // namespace pons::supervisor
