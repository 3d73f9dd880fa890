#include "gzip.h"

#include <zlib.h>

#include <algorithm>
#include <string_view>

#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::e2b {

namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip
constexpr int kMemoryLevel = 8;       // zlib's default
constexpr std::size_t kPieceBytes = 64 * 1024;

class Gzip final : public sandbox::ByteSource {
 public:
  explicit Gzip(std::unique_ptr<sandbox::ByteSource> plain) : plain_(std::move(plain)) {
    CHECK(deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  ~Gzip() override { deflateEnd(&stream_); }

  Task<Result<std::string>> next() override {
    std::string out(kPieceBytes, '\0');
    while (!over_) {
      if (stream_.avail_in == 0 && !plain_over_) {
        CO_TRY(input_, co_await plain_->next());
        plain_over_ = input_.empty();
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(input_.size());
      }
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(out.size());
      const int outcome = deflate(&stream_, plain_over_ ? Z_FINISH : Z_NO_FLUSH);
      CHECK(outcome == Z_OK || outcome == Z_STREAM_END || outcome == Z_BUF_ERROR);
      over_ = outcome == Z_STREAM_END;
      const std::size_t size = out.size() - stream_.avail_out;
      if (size == 0) continue;
      out.resize(size);
      co_return out;
    }
    co_return std::string();
  }

 private:
  std::unique_ptr<sandbox::ByteSource> plain_;
  std::string input_;
  z_stream stream_{};
  bool plain_over_ = false;
  bool over_ = false;
};

}  // namespace

std::unique_ptr<sandbox::ByteSource> gzip(std::unique_ptr<sandbox::ByteSource> plain) {
  return std::make_unique<Gzip>(std::move(plain));
}

namespace {

// Thousandths; what is no weight is the whole.
int weight_of(std::string_view parameters) {
  constexpr int kWhole = 1000;
  for (const std::string_view parameter : split(parameters, ';')) {
    const std::string_view text = trim(parameter);
    if (text.size() < 3 || !equal_ignoring_case(text.substr(0, 2), "q=")) continue;
    if (text[2] != '0') return kWhole;
    int weight = 0;
    int unit = kWhole / 10;
    for (const char c : text.substr(std::min<std::size_t>(4, text.size()))) {
      if (c < '0' || c > '9') break;
      weight += (c - '0') * unit;
      unit /= 10;
    }
    return weight;
  }
  return kWhole;
}

// What Accept-Encoding says of each coding.
struct Accepted {
  std::optional<int> gzip, identity, any;
  bool others = false;

  void add(std::string_view item) {
    const std::size_t semicolon = std::min(item.find(';'), item.size());
    const std::string_view name = trim(item.substr(0, semicolon));
    const int weight = weight_of(item.substr(std::min(semicolon + 1, item.size())));
    if (name.empty()) return;
    if (equal_ignoring_case(name, "gzip") || equal_ignoring_case(name, "x-gzip")) {
      gzip = weight;
    } else if (equal_ignoring_case(name, "identity")) {
      identity = weight;
    } else if (name == "*") {
      any = weight;
    } else {
      others |= weight > 0;
    }
  }
};

}  // namespace

std::optional<Coding> choose_coding(const http::RequestHead& head, Coding best) {
  Accepted accepted;
  for (const http::Field& field : head.fields)
    if (equal_ignoring_case(field.name, "Accept-Encoding"))
      for (const std::string_view item : split(field.value, ',')) accepted.add(item);
  const int gzip = best == Coding::kGzip ? accepted.gzip.value_or(accepted.any.value_or(0)) : 0;
  const bool takes_identity = accepted.identity.value_or(accepted.any.value_or(1)) > 0;
  if (!takes_identity) return gzip > 0 ? std::optional(Coding::kGzip) : std::nullopt;
  const bool wants_gzip = accepted.gzip && gzip > accepted.identity.value_or(0) &&
                          !accepted.others && accepted.any.value_or(0) == 0;
  return wants_gzip ? Coding::kGzip : Coding::kIdentity;
}

}  // namespace pons::e2b
