#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/http/head.h"
#include "pons/scan/content_decoder.h"

namespace pons::egress {

// The messages of a gRPC, gRPC-Web or Connect stream: a byte of flags, four of length, the message.
// Each may be compressed by itself, whatever Content-Encoding says.
class GrpcMessages {
 public:
  // Nothing when the fields, of a request or an answer, announce another kind of body.
  static std::optional<GrpcMessages> find(const std::vector<http::Field>& fields);

  enum class Part : std::uint8_t {
    kAsIs,         // bytes of the stream that are not compressed, flags and length included
    kUnpacked,     // a piece of what is in a compressed message
    kUnpackedEnd,  // it is complete; the one byte is its flags, without the one for compression
  };
  using Sink = std::function<Result<void>(Part, std::string_view)>;

  // An error is final: an unknown flag or coding, damaged data, a bomb, or the sink's own.
  Result<void> feed(std::string_view piece, const Sink& sink);
  // What unpacking may come to take in memory; nothing where no coding is declared.
  std::size_t memory_bytes_max() const;
  // An error if the stream ends inside a message.
  Result<void> finish() const;

 private:
  Result<void> begin_message(const Sink& sink);
  Result<void> end_message(const Sink& sink);

  std::uint8_t known_flags_ = 0;
  std::string coding_;  // empty when none is declared that can be undone
  std::string head_;    // of the message at hand, until it is whole
  bool in_message_ = false;
  std::uint64_t left_ = 0;                       // of it
  std::optional<scan::ContentDecoder> decoder_;  // of it, when it is compressed
};

}  // namespace pons::egress
