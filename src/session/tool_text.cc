#include "pons/session/tool_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::session {

namespace {

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

std::string how_it_ended(const ExecuteReport& report) {
  using End = ExecuteReport::End;
  switch (report.end) {
    case End::kExit:
      return fmt::format("exit code {}", report.code);
    case End::kSignal:
      return fmt::format("ended by signal {}", report.code);
    case End::kTimeout:
      return "timed out, and was ended";
    case End::kOutOfMemory:
      return "ended: the sandbox's memory limit was reached";
    case End::kOutputLimit:
      return "ended: it printed more than is allowed";
    case End::kInterrupted:
      return "interrupted: the sandbox ended under it. It may have run; look before you run it "
             "again";
  }
  return {};
}

// How long a character is that begins so, if it is whole.
std::size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

std::string shorten(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  std::size_t head = bytes_max / 2;
  while (head > 0 && continues_character(text[head])) --head;
  std::size_t tail = text.size() - bytes_max / 2;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return fmt::format("{}\n[… {} are left out here …]\n{}", text.substr(0, head),
                     human_bytes(tail - head), text.substr(tail));
}

std::string printable(std::string text) {
  if (is_valid_utf8(text) && text.find('\0') == std::string::npos) return text;
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view character = std::string_view(text).substr(i, character_bytes(text[i]));
    if (text[i] != '\0' && is_valid_utf8(character)) {
      clean += character;
      i += character.size();
    } else {
      clean += "\xEF\xBF\xBD";
      ++i;
    }
  }
  return clean;
}

ToolText describe(std::string text, bool is_error) {
  text = printable(std::move(text));
  ToolText out{.text = shorten(text, kResultBytesMax), .is_error = is_error};
  if (text.size() > kResultBytesMax) {
    std::string digest = sha256_hex(text);
    out.full = Blob{.digest = std::move(digest), .bytes = std::move(text)};
  }
  return out;
}

namespace {

// The end of it; what is cleaned may be three times as long as it was.
std::uint64_t cut_to_kept(std::string& output) {
  if (output.size() <= kKeptBytesMax) return 0;
  std::size_t cut = output.size() - kKeptBytesMax;
  while (cut < output.size() && continues_character(output[cut])) ++cut;
  output.erase(0, cut);
  return cut;
}

}  // namespace

ToolText describe(ExecuteReport report) {
  report.output = printable(std::move(report.output));
  report.lost_bytes += cut_to_kept(report.output);
  ToolText out = describe(std::move(report.output),
                          report.end != ExecuteReport::End::kExit || report.code != 0);
  if (report.lost_bytes > 0)
    out.text =
        fmt::format("[the first {} were not kept]\n{}", human_bytes(report.lost_bytes), out.text);
  if (!out.text.empty() && !out.text.ends_with('\n')) out.text += '\n';
  out.text += fmt::format(
      "[{}; {}", how_it_ended(report),
      human_duration(static_cast<std::uint64_t>(std::max<std::int64_t>(0, report.took_ms))));
  if (out.full)
    out.text += fmt::format("; {} of output, shortened", human_bytes(out.full->bytes.size()));
  if (report.rolled_back) out.text += "; changes to files were taken back";
  if (!report.note.empty()) out.text += "; " + report.note;
  out.text += "]";
  return out;
}

}  // namespace pons::session
