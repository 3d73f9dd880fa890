#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/scan/content_decoder.h"
#include "wiped.h"

namespace pons::scan {

// One content coding being undone.
class ContentDecoder::Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  virtual Result<> feed(std::string_view piece, const Sink& sink) = 0;
  // Whether the input may end here.
  virtual bool is_complete() const = 0;
  virtual std::size_t memory_bytes_max() const = 0;

  std::uint64_t bytes_out = 0;

 protected:
  static constexpr std::size_t kOutputBytes = 16384;
  char* output() {
    if (output_.empty()) output_.resize(kOutputBytes);
    return output_.data();
  }
  static Error damaged(const char* coding) {
    return make_error(ErrorCode::kInvalid, "undo content coding",
                      std::string("the body is not valid ") + coding);
  }

 private:
  WipedBytes output_;
};

enum class ZlibFormat : std::uint8_t { kGzip, kDeflate };

std::unique_ptr<ContentDecoder::Stage> create_zlib_stage(ZlibFormat format);
std::unique_ptr<ContentDecoder::Stage> create_brotli_stage();
std::unique_ptr<ContentDecoder::Stage> create_zstd_stage();

}  // namespace pons::scan
