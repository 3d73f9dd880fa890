#include "process_name.h"

#include "pons/base/id.h"
#include "pons/base/text.h"

namespace pons::e2b {

namespace {

// "e2b-p" or "e2b-t", 20 characters at random, and "." with the tag's code.
constexpr std::string_view kPrefix = "e2b-";
constexpr std::size_t kRandomBytes = 20;
constexpr std::size_t kHeadBytes = kPrefix.size() + 1 + kRandomBytes;
constexpr std::size_t kPlainTagBytesMax = 32;  // as hexadecimal digits it leaves room enough
constexpr char kHashMark = '~';

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string tag_code(std::string_view tag) {
  if (tag.size() <= kPlainTagBytesMax) return "x" + to_hex(tag);
  return kHashMark + sha256_hex(tag);
}

std::optional<std::string> tag_of(std::string_view code) {
  if (!code.starts_with('x') || code.size() % 2 == 0) return std::nullopt;
  std::string tag;
  for (std::size_t i = 1; i < code.size(); i += 2) {
    const int high = digit_of(code[i]);
    const int low = digit_of(code[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    tag += static_cast<char>(high * 16 + low);
  }
  return tag;
}

std::string make_process_name(ProcessIo io, const std::optional<std::string>& tag) {
  std::string name(kPrefix);
  name += io == ProcessIo::kTerminal ? 't' : 'p';
  name += random_text(kRandomBytes);
  if (tag) name += "." + tag_code(*tag);
  return name;
}

std::optional<ProcessName> parse_process_name(std::string_view job) {
  if (!job.starts_with(kPrefix) || job.size() < kHeadBytes) return std::nullopt;
  const char kind = job[kPrefix.size()];
  if (kind != 'p' && kind != 't') return std::nullopt;
  ProcessName name{.io = kind == 't' ? ProcessIo::kTerminal : ProcessIo::kPipes};
  const std::string_view rest = job.substr(kHeadBytes);
  if (rest.empty()) return name;
  if (rest[0] != '.') return std::nullopt;
  name.tag_code = rest.substr(1);
  return name;
}

}  // namespace pons::e2b
