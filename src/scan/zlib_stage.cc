#include <zlib.h>

#include "content_stage.h"
#include "pons/base/check.h"

namespace pons::scan {

namespace {

constexpr int kWindowBits = 15;
constexpr int kGzipOnly = 16;

class ZlibStage final : public ContentDecoder::Stage {
 public:
  explicit ZlibStage(ZlibFormat format) : format_(format) {
    if (format == ZlibFormat::kGzip) begin(kWindowBits + kGzipOnly);
  }
  ~ZlibStage() override {
    if (has_begun_) inflateEnd(&stream_);
  }

  Result<> feed(std::string_view piece, const ContentDecoder::Sink& sink) override {
    if (has_begun_) return inflate_all(piece, sink);
    // "deflate" means zlib's format, but raw deflate is sent under that name too: the first two
    // bytes tell them apart.
    append(start_, piece);
    if (start_.size() < 2) return {};
    begin(has_zlib_header() ? kWindowBits : -kWindowBits);
    return inflate_all(view_of(start_), sink);
  }

  bool is_complete() const override { return is_at_end_; }
  std::size_t memory_bytes_max() const override { return 64U << 10; }

 private:
  void begin(int window_bits) {
    CHECK(inflateInit2(&stream_, window_bits) == Z_OK);
    has_begun_ = true;
  }

  bool has_zlib_header() const {
    const auto first = static_cast<unsigned char>(start_[0]);
    const auto second = static_cast<unsigned char>(start_[1]);
    return first % 16 == Z_DEFLATED && (first * 256 + second) % 31 == 0;
  }

  Result<> inflate_all(std::string_view piece, const ContentDecoder::Sink& sink) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
    while (true) {
      if (is_at_end_) {
        if (stream_.avail_in == 0) return {};
        // A gzip body may have several members; zlib refuses anything else that follows one.
        if (format_ != ZlibFormat::kGzip) return damaged("deflate: something follows its end");
        CHECK(inflateReset(&stream_) == Z_OK);
        is_at_end_ = false;
      }
      stream_.next_out = reinterpret_cast<Bytef*>(output());
      stream_.avail_out = kOutputBytes;
      const int outcome = inflate(&stream_, Z_NO_FLUSH);
      if (outcome != Z_OK && outcome != Z_STREAM_END && outcome != Z_BUF_ERROR) {
        return damaged(format_ == ZlibFormat::kGzip ? "gzip" : "deflate");
      }
      is_at_end_ = outcome == Z_STREAM_END;
      const std::size_t size = kOutputBytes - stream_.avail_out;
      if (size > 0) TRY_VOID(sink({output(), size}));
      if (!is_at_end_ && stream_.avail_out > 0) return {};  // it has no more to give
    }
  }

  const ZlibFormat format_;
  z_stream stream_{};
  WipedBytes start_;
  bool has_begun_ = false;
  bool is_at_end_ = false;
};

}  // namespace

std::unique_ptr<ContentDecoder::Stage> create_zlib_stage(ZlibFormat format) {
  return std::make_unique<ZlibStage>(format);
}

}  // namespace pons::scan
