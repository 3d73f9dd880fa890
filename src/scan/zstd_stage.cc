#include <zstd.h>

#include "content_stage.h"
#include "pons/base/check.h"

namespace pons::scan {

namespace {

// RFC 9659: a content coding needs no more than 8 MiB.
constexpr int kWindowLogMax = 23;

class ZstdStage final : public ContentDecoder::Stage {
 public:
  ZstdStage() : stream_(ZSTD_createDStream()) {
    CHECK(stream_ != nullptr);
    CHECK(ZSTD_isError(ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kWindowLogMax)) == 0);
  }
  ~ZstdStage() override { ZSTD_freeDStream(stream_); }

  Result<> feed(std::string_view piece, const ContentDecoder::Sink& sink) override {
    ZSTD_inBuffer input{.src = piece.data(), .size = piece.size(), .pos = 0};
    while (true) {
      ZSTD_outBuffer decoded{.dst = output(), .size = kOutputBytes, .pos = 0};
      // At the end of a frame a further call begins the next one, so it needs input.
      if (is_at_end_ && input.pos == input.size) return {};
      const std::size_t outcome = ZSTD_decompressStream(stream_, &decoded, &input);
      if (ZSTD_isError(outcome) != 0) return damaged("zstd, or needs a window above 8 MiB");
      is_at_end_ = outcome == 0;
      if (decoded.pos > 0) TRY_VOID(sink({output(), decoded.pos}));
      if (input.pos == input.size && decoded.pos < decoded.size) return {};
    }
  }

  bool is_complete() const override { return is_at_end_; }
  // The window, a block on either side, and tables.
  std::size_t memory_bytes_max() const override { return (1U << kWindowLogMax) + (512U << 10); }

 private:
  ZSTD_DStream* stream_;
  bool is_at_end_ = false;
};

}  // namespace

std::unique_ptr<ContentDecoder::Stage> create_zstd_stage() {
  return std::make_unique<ZstdStage>();
}

}  // namespace pons::scan
