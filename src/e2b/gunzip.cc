#include "gunzip.h"

#include <zlib.h>

#include "pons/base/check.h"

namespace pons::e2b {

namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip only
constexpr std::size_t kPieceBytes = 64 * 1024;

class Gunzip final : public sandbox::ByteSource {
 public:
  explicit Gunzip(std::unique_ptr<sandbox::ByteSource> packed) : packed_(std::move(packed)) {
    CHECK(inflateInit2(&stream_, kGzipWindow) == Z_OK);
  }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;
  ~Gunzip() override { inflateEnd(&stream_); }

  Task<Result<std::string>> next() override {
    std::string out(kPieceBytes, '\0');
    for (;;) {
      if (stream_.avail_in == 0 && !output_full_) {
        CO_TRY(input_, co_await packed_->next());
        if (input_.empty()) {
          if (!at_end_) co_return damaged();
          co_return std::string();
        }
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(input_.size());
      }
      CO_TRY(const std::size_t size, inflate_into(out));
      if (size == 0) continue;
      out.resize(size);
      co_return out;
    }
  }

 private:
  static Error damaged() {
    return make_error(ErrorCode::kInvalid, "unpack body", "the body is not valid gzip");
  }

  Result<std::size_t> inflate_into(std::string& out) {
    // Several members may follow each other.
    if (at_end_ && stream_.avail_in > 0) {
      CHECK(inflateReset(&stream_) == Z_OK);
      at_end_ = false;
    }
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int outcome = inflate(&stream_, Z_NO_FLUSH);
    if (outcome != Z_OK && outcome != Z_STREAM_END && outcome != Z_BUF_ERROR) return damaged();
    at_end_ = outcome == Z_STREAM_END;
    output_full_ = stream_.avail_out == 0 && !at_end_;
    return out.size() - stream_.avail_out;
  }

  std::unique_ptr<sandbox::ByteSource> packed_;
  std::string input_;
  z_stream stream_{};
  bool at_end_ = false;
  bool output_full_ = false;  // it may have more to give without more input
};

}  // namespace

std::unique_ptr<sandbox::ByteSource> gunzip(std::unique_ptr<sandbox::ByteSource> packed) {
  return std::make_unique<Gunzip>(std::move(packed));
}

}  // namespace pons::e2b
