#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"

// The text of an event and the files they stand in.

namespace pons::audit {

inline constexpr std::size_t kLineBytesMax = 16 * 1024;
inline constexpr std::string_view kFirstPrevious =
    "0000000000000000000000000000000000000000000000000000000000000000";

// A line without its line end: {"seq":1,"kind":…,…,"previous":"…","hash":"…"}. The hash covers
// every byte before `,"hash"`. `fields` is empty or begins with a comma.
std::string make_line(std::uint64_t seq, std::int64_t time_unix_ms, std::string_view kind,
                      std::string_view fields, std::string_view previous);

// What a line says of its place in the chain.
struct Link {
  std::uint64_t seq = 0;
  std::string previous;
  std::string hash;
  bool hash_is_right = false;
};
std::optional<Link> parse_link(std::string_view line);

// The last complete line of a file's text; empty when there is none.
std::string_view last_line(std::string_view text);

// Printable ASCII without quotes, cut to a length; other bytes as %XX.
std::string plain_text(std::string_view text, std::size_t bytes_max);

std::string file_name(std::uint64_t number);
// Sizes by number.
Result<std::map<std::uint64_t, std::uint64_t>> list_files(const std::string& directory);
Result<std::string> read_log_file(const std::string& directory, std::uint64_t number,
                                  std::uint64_t offset = 0);

}  // namespace pons::audit
