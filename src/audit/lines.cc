#include "lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/linux/fd.h"

namespace pons::audit {

namespace {

constexpr std::string_view kFileBegin = "audit-";
constexpr std::string_view kFileEnd = ".jsonl";
constexpr std::size_t kHashDigits = 64;
// More than any file grows to: the options are not known to a reader.
constexpr std::size_t kFileBytesMax = 1ULL << 30;

bool is_hash(std::string_view text) {
  return text.size() == kHashDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The hash that ends `text` as `MARK"…"`, and the text before it.
std::optional<std::string_view> take_hash(std::string_view& text, std::string_view mark) {
  if (text.size() < mark.size() + kHashDigits + 1 || !text.ends_with('"')) return std::nullopt;
  const std::string_view hash = text.substr(text.size() - kHashDigits - 1, kHashDigits);
  text.remove_suffix(kHashDigits + 1);
  if (!is_hash(hash) || !text.ends_with(mark)) return std::nullopt;
  text.remove_suffix(mark.size());
  return hash;
}

}  // namespace

std::string make_line(std::uint64_t seq, std::int64_t time_unix_ms, std::string_view kind,
                      std::string_view fields, std::string_view previous) {
  std::string line = fmt::format(R"({{"seq":{},"time_unix_ms":{},"kind":"{}"{},"previous":"{}")",
                                 seq, time_unix_ms, kind, fields, previous);
  const std::string hash = sha256_hex(line);
  line += fmt::format(R"(,"hash":"{}"}})", hash);
  return line;
}

std::optional<Link> parse_link(std::string_view line) {
  constexpr std::string_view kBegin = "{\"seq\":";
  if (line.size() > kLineBytesMax || !line.starts_with(kBegin) || !line.ends_with('}'))
    return std::nullopt;
  line.remove_suffix(1);
  const auto hash = take_hash(line, ",\"hash\":\"");
  if (!hash) return std::nullopt;
  Link link{.hash = std::string(*hash), .hash_is_right = sha256_hex(line) == *hash};
  const auto previous = take_hash(line, ",\"previous\":\"");
  line.remove_prefix(std::min(kBegin.size(), line.size()));
  const auto seq = parse_decimal(line.substr(0, line.find(',')));
  if (!previous || !seq) return std::nullopt;
  link.previous = *previous;
  link.seq = *seq;
  return link;
}

std::string_view last_line(std::string_view text) {
  text = text.substr(0, text.rfind('\n') + 1);
  if (text.empty()) return {};
  text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1);
}

std::string plain_text(std::string_view text, std::size_t bytes_max) {
  std::string plain;
  for (const char c : text) {
    if (plain.size() >= bytes_max) return plain + "...";
    if (c > 0x20 && c < 0x7F && c != '"' && c != '\\')
      plain += c;
    else
      plain += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return plain;
}

std::string file_name(std::uint64_t number) {
  return fmt::format("{}{:08}{}", kFileBegin, number, kFileEnd);
}

Result<std::map<std::uint64_t, std::uint64_t>> list_files(const std::string& directory) {
  std::map<std::uint64_t, std::uint64_t> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kFileBegin) || !name.ends_with(kFileEnd)) continue;
    const auto number = parse_decimal(std::string_view(name).substr(
        kFileBegin.size(), name.size() - kFileBegin.size() - kFileEnd.size()));
    if (!number || file_name(*number) != name) continue;
    const std::uint64_t bytes = entry->file_size(error);
    if (!error) files[*number] = bytes;
    error.clear();  // removed meanwhile
  }
  if (error) return os_error("list audit log", directory, error.value());
  return files;
}

Result<std::string> read_log_file(const std::string& directory, std::uint64_t number,
                                  std::uint64_t offset) {
  const auto fd = TRY(
      linux::open_file(fmt::format("{}/{}", directory, file_name(number)), O_RDONLY | O_NOFOLLOW));
  if (lseek(fd.get(), static_cast<off_t>(offset), SEEK_SET) < 0)
    return os_error("read audit log", file_name(number));
  return linux::read_all(fd.get(), kFileBytesMax);
}

}  // namespace pons::audit
