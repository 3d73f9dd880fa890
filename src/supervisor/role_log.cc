#include "role_log.h"

#include <algorithm>

#include <fmt/format.h>

namespace pons::supervisor {

namespace {

// The bytes of a colour sequence ("ESC [ digits and semicolons m") that `text` begins with.
std::size_t color_sequence_size(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

// U+0080 to U+009F: terminals obey them like escape sequences.
bool begins_with_c1_control(std::string_view text) {
  return text.size() >= 2 && text[0] == '\xC2' &&
         (static_cast<unsigned char>(text[1]) & 0xE0) == 0x80;
}

std::string printable(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const auto c = static_cast<unsigned char>(rest[0]);
    const std::size_t color = color_sequence_size(rest);
    const bool control = (c < 0x20 && c != '\t') || c == 0x7F || begins_with_c1_control(rest);
    const std::size_t size = color != 0 ? color : begins_with_c1_control(rest) ? 2 : 1;
    if (control && color == 0) {
      clean += '?';
    } else {
      clean += rest.substr(0, size);
    }
    at += size;
  }
  return clean;
}

}  // namespace

void RoleLog::feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    const std::size_t line_feed = bytes.find('\n');
    const std::size_t room = kLineBytesMax - pending_.size();
    const std::string_view piece = bytes.substr(0, std::min(line_feed, room));
    pending_ += piece;
    bytes.remove_prefix(piece.size());
    if (bytes.starts_with('\n')) {
      bytes.remove_prefix(1);
      emit(sink);
    } else if (pending_.size() == kLineBytesMax) {
      emit(sink);
    }
  }
}

void RoleLog::finish(const Sink& sink) {
  if (!pending_.empty()) emit(sink);
}

void RoleLog::emit(const Sink& sink) {
  last_lines_.push_back(printable(pending_));
  pending_.clear();
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
  sink(last_lines_.back());
}

std::string RoleLog::last_words() const {
  std::string text;
  for (const std::string& line : last_lines_) text += fmt::format("  {}\n", line);
  return text.empty() ? "  (it said nothing)\n" : text;
}

}  // namespace pons::supervisor
