#include "pons/session/tool_text.h"

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

std::string printable(std::string text) {
  if (is_valid_utf8(text) && text.find('\0') == std::string::npos) return text;
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    std::size_t size = 1;
    while (size < 4 && i + size < text.size() && continues_character(text[i + size])) ++size;
    const std::string_view character = std::string_view(text).substr(i, size);
    if (text[i] != '\0' && is_valid_utf8(character)) {
      clean += character;
      i += size;
    } else {
      clean += "\xEF\xBF\xBD";
      ++i;
    }
  }
  return clean;
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

ToolText describe(ExecuteReport report) {
  ToolText out;
  std::string output = printable(std::move(report.output));
  out.is_error = report.end != ExecuteReport::End::kExit || report.code != 0;
  out.text = shorten(output, kResultBytesMax);
  if (output.size() > kResultBytesMax) {
    std::string digest = sha256_hex(output);
    out.full = Blob{.digest = std::move(digest), .bytes = std::move(output)};
  }
  if (report.lost_bytes > 0)
    out.text =
        fmt::format("[the first {} were not kept]\n{}", human_bytes(report.lost_bytes), out.text);
  if (!out.text.empty() && !out.text.ends_with('\n')) out.text += '\n';
  out.text += fmt::format("[{}; {}", how_it_ended(report),
                          human_duration(static_cast<std::uint64_t>(report.took_ms)));
  if (out.full)
    out.text += fmt::format("; {} of output, shortened", human_bytes(out.full->bytes.size()));
  if (report.rolled_back) out.text += "; changes to files were taken back";
  if (!report.note.empty()) out.text += "; " + report.note;
  out.text += "]";
  return out;
}

}  // namespace pons::session
