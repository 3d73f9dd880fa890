#include <brotli/decode.h>

#include "content_stage.h"
#include "pons/base/check.h"

namespace pons::scan {

namespace {

class BrotliStage final : public ContentDecoder::Stage {
 public:
  BrotliStage() : state_(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr)) {
    CHECK(state_ != nullptr);
  }
  ~BrotliStage() override { BrotliDecoderDestroyInstance(state_); }

  Result<> feed(std::string_view piece, const ContentDecoder::Sink& sink) override {
    const auto* next_in = reinterpret_cast<const std::uint8_t*>(piece.data());
    std::size_t available_in = piece.size();
    while (true) {
      if (is_complete()) {
        if (available_in == 0) return {};
        return damaged("br: something follows its end");
      }
      auto* next_out = reinterpret_cast<std::uint8_t*>(output());
      std::size_t available_out = kOutputBytes;
      const BrotliDecoderResult outcome = BrotliDecoderDecompressStream(
          state_, &available_in, &next_in, &available_out, &next_out, nullptr);
      if (outcome == BROTLI_DECODER_RESULT_ERROR) return damaged("br");
      const std::size_t size = kOutputBytes - available_out;
      if (size > 0) TRY_VOID(sink({output(), size}));
      if (outcome == BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT) return {};
    }
  }

  bool is_complete() const override { return BrotliDecoderIsFinished(state_) != 0; }
  // The largest window (larger ones must be asked for, which nobody does), and tables.
  std::size_t memory_bytes_max() const override { return (16U << 20) + (1U << 20); }

 private:
  BrotliDecoderState* state_;
};

}  // namespace

std::unique_ptr<ContentDecoder::Stage> create_brotli_stage() {
  return std::make_unique<BrotliStage>();
}

}  // namespace pons::scan
