#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "pons/base/result.h"

namespace pons::scan {

inline constexpr std::size_t kContentCodingsMax = 3;
// More than this many bytes out for each one in is a bomb, once more than the first bytes are out.
inline constexpr std::uint64_t kExpansionMax = 1000;
inline constexpr std::uint64_t kExpansionFreeBytes = 1 << 20;

// Undoes the Content-Encoding of one message: gzip, x-gzip, deflate (in zlib's format or raw), br,
// zstd and identity, up to three of them on top of each other. Memory is bounded: at most 16 MiB
// per coding (brotli's largest window; zstd is held to 8 MiB).
//
// Only what a recipient would see comes out: the format around it (the file name in a gzip header,
// zstd's skippable frames) does not. Whoever looks for secrets scans the bytes as sent as well.
class ContentDecoder {
 public:
  // Takes pieces of up to 16 KiB; an error of its own ends the decoding with that error.
  using Sink = std::function<Result<>(std::string_view)>;

  // `codings` is the value of the field, or the values of several joined by commas; "" is identity.
  static Result<ContentDecoder> create(std::string_view codings);
  ContentDecoder(ContentDecoder&&) noexcept;
  ContentDecoder& operator=(ContentDecoder&&) noexcept;
  ~ContentDecoder();

  // An error is final: damaged or trailing bytes (kInvalid), or a bomb (kLimit). What came out
  // before it has come out.
  Result<> feed(std::string_view piece, const Sink& sink);
  // The message is complete; an error if its coding is not. No bytes at all are an empty message.
  Result<> finish();

  bool is_identity() const { return stages_.empty(); }
  // What it may come to take in memory, whatever it is fed.
  std::size_t memory_bytes_max() const;

  class Stage;  // private to this folder

 private:
  ContentDecoder();
  Result<> feed_stage(std::size_t stage, std::string_view piece, const Sink& sink);

  std::vector<std::unique_ptr<Stage>> stages_;  // the last coding applied comes first
  std::uint64_t bytes_in_ = 0;
  bool has_failed_ = false;
};

}  // namespace pons::scan
