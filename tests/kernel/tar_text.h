#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace pons::templates {

// One entry of a tar, written byte by byte: a library would refuse to make what an attacker makes.
struct TarEntry {
  std::string path;
  char type = '0';  // 0 file, 1 hard link, 2 symbolic link, 3 char, 4 block, 5 directory, 6 pipe
  std::string content = {};
  std::string target = {};
  unsigned mode = 0644;
  unsigned uid = 0;
  unsigned gid = 0;
  std::uint64_t claimed_size = 0;  // 0: the content's
};

inline std::string padded(std::string text) {
  text.resize((text.size() + 511) / 512 * 512, '\0');
  return text;
}

inline std::string tar_header(const TarEntry& entry) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, std::size_t size, const std::string& text) {
    header.replace(at, std::min(size, text.size()), text.substr(0, size));
  };
  const auto octal = [](std::uint64_t value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
    return std::string(text);
  };
  const std::uint64_t size = entry.claimed_size != 0 ? entry.claimed_size : entry.content.size();
  put(0, 100, entry.path);
  put(100, 7, octal(entry.mode, 7));
  put(108, 7, octal(entry.uid, 7));
  put(116, 7, octal(entry.gid, 7));
  put(124, 11, octal(size, 11));
  put(136, 11, octal(1'700'000'000, 11));
  put(148, 8, "        ");
  header[156] = entry.type;
  put(157, 100, entry.target);
  put(257, 8,
      std::string("ustar\0"
                  "00",
                  8));
  put(329, 7, octal(0, 7));
  put(337, 7, octal(0, 7));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, 8, octal(sum, 6) + std::string("\0 ", 2));
  return header;
}

// GNU's way to say a name of any length and any bytes.
inline std::string long_name(const std::string& path) {
  TarEntry entry{.path = "././@LongLink", .type = 'L', .content = path + '\0'};
  return tar_header(entry) + padded(entry.content);
}

// A pax header with one record.
inline std::string pax(const std::string& key, const std::string& value) {
  std::string record = " " + key + "=" + value + "\n";
  std::size_t size = record.size() + 1;
  while (std::to_string(size).size() + record.size() != size)
    size = std::to_string(size).size() + record.size();
  TarEntry entry{.path = "pax", .type = 'x', .content = std::to_string(size) + record};
  return tar_header(entry) + padded(entry.content);
}

inline std::string tar_entry(const TarEntry& entry) {
  return (entry.path.size() > 100 ? long_name(entry.path) : std::string()) + tar_header(entry) +
         padded(entry.content);
}

inline std::string tar_of(const std::vector<TarEntry>& entries) {
  std::string text;
  for (const TarEntry& entry : entries) text += tar_entry(entry);
  return text + std::string(1024, '\0');
}

enum class Packing : std::uint8_t { kGzip, kZstd };

inline std::string packed(const std::string& text, Packing packing) {
  std::string out(text.size() + (1 << 16), '\0');
  std::size_t used = 0;
  archive* writer = archive_write_new();
  archive_write_set_format_raw(writer);
  if (packing == Packing::kGzip)
    archive_write_add_filter_gzip(writer);
  else
    archive_write_add_filter_zstd(writer);
  archive_write_open_memory(writer, out.data(), out.size(), &used);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, "data");
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(writer, entry);
  archive_write_data(writer, text.data(), text.size());
  archive_entry_free(entry);
  archive_write_close(writer);
  archive_write_free(writer);
  out.resize(used);
  return out;
}

}  // namespace pons::templates
