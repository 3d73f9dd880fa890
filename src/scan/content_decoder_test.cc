#include "pons/scan/content_decoder.h"

#include <string>

#include <brotli/encode.h>
#include <gmock/gmock.h>
#include <zlib.h>
#include <zstd.h>

#include "scan_fixture.h"

namespace pons::scan {
namespace {

std::string with_zlib(std::string_view text, int window_bits) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string gzip(std::string_view text) {
  return with_zlib(text, 31);
}

std::string brotli(std::string_view text) {
  std::size_t size = BrotliEncoderMaxCompressedSize(text.size()) + 64;
  std::string out(size, '\0');
  EXPECT_TRUE(BrotliEncoderCompress(5, 22, BROTLI_MODE_GENERIC, text.size(),
                                    reinterpret_cast<const std::uint8_t*>(text.data()), &size,
                                    reinterpret_cast<std::uint8_t*>(out.data())));
  out.resize(size);
  return out;
}

std::string zstd(std::string_view text, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_outBuffer output{out.data(), out.size(), 0};
  ZSTD_inBuffer input{text.data(), text.size(), 0};
  // In two steps, so that the frame names a window and not its size.
  ZSTD_compressStream2(context, &output, &input, ZSTD_e_flush);
  EXPECT_EQ(ZSTD_compressStream2(context, &output, &input, ZSTD_e_end), 0U);
  out.resize(output.pos);
  ZSTD_freeCCtx(context);
  return out;
}

Result<std::string> decode(std::string_view codings, std::string_view body,
                           std::size_t piece_bytes = 1 << 20) {
  ContentDecoder decoder = TRY(ContentDecoder::create(codings));
  std::string out;
  for (; !body.empty(); body.remove_prefix(std::min(piece_bytes, body.size()))) {
    TRY_VOID(decoder.feed(body.substr(0, piece_bytes), [&out](std::string_view decoded) {
      out += decoded;
      return Result<>();
    }));
  }
  TRY_VOID(decoder.finish());
  return out;
}

const std::string kText = fixture::Random(1).noise(3000) + std::string(60000, 'a');

struct Coded {
  std::string codings;
  std::string body;
};

std::vector<Coded> all_codings() {
  return {{"", kText},
          {"identity", kText},
          {"gzip", gzip(kText)},
          {"X-GZip", gzip(kText)},
          {"gzip", gzip(kText.substr(0, 1000)) + gzip(kText.substr(1000))},
          {"deflate", with_zlib(kText, 15)},
          {"deflate", with_zlib(kText, -15)},
          {"br", brotli(kText)},
          {"zstd", zstd(kText)},
          {"zstd", zstd(kText.substr(0, 1000)) + zstd(kText.substr(1000))},
          {"gzip, br ,\tzstd", zstd(brotli(gzip(kText)))},
          {" , identity, deflate", with_zlib(kText, 15)}};
}

TEST(ContentDecoder, EachCodingIsUndoneWhateverThePieces) {
  for (const auto& [codings, body] : all_codings()) {
    for (const std::size_t piece_bytes : {1, 7, 100000}) {
      const auto decoded = decode(codings, body, piece_bytes);
      ASSERT_TRUE(decoded) << codings << decoded.error().describe();
      EXPECT_EQ(*decoded, kText) << codings;
    }
  }
}

TEST(ContentDecoder, TruncatedBodiesAndTrailingBytesAreErrors) {
  for (const auto& [codings, body] : all_codings()) {
    if (body == kText) continue;
    SCOPED_TRACE(codings);
    for (const std::string& tail :
         {std::string("x"), std::string("garbage!"), std::string(1, '\0')}) {
      EXPECT_FALSE(decode(codings, body + tail));
      EXPECT_FALSE(decode(codings, body + tail, 1));
    }
    for (std::size_t cut = 1; cut < 12; ++cut) {
      EXPECT_FALSE(decode(codings, body.substr(0, body.size() - cut)));
      EXPECT_FALSE(decode(codings, body.substr(0, cut)));
    }
  }
}

TEST(ContentDecoder, DamagedBodiesAreErrorsAndStayErrors) {
  for (const std::string& codings : {"gzip", "deflate", "br", "zstd"}) {
    auto decoder = ContentDecoder::create(codings).value();
    const auto drop = [](std::string_view) { return Result<>(); };
    EXPECT_FALSE(decoder.feed("\xff\xff\xff\xff this is not compressed", drop)) << codings;
    EXPECT_FALSE(decoder.feed("more", drop));
    EXPECT_FALSE(decoder.finish());
  }
}

TEST(ContentDecoder, BombsAreRefused) {
  const std::string zeros(64 << 20, '\0');
  EXPECT_EQ(decode("gzip", gzip(zeros)).error().code, ErrorCode::kLimit);
  EXPECT_EQ(decode("br", brotli(zeros)).error().code, ErrorCode::kLimit);
  EXPECT_EQ(decode("zstd", zstd(zeros)).error().code, ErrorCode::kLimit);
  EXPECT_EQ(decode("gzip, gzip", gzip(gzip(zeros))).error().code, ErrorCode::kLimit);
  EXPECT_TRUE(decode("gzip", gzip(zeros.substr(0, 1 << 20))));
}

TEST(ContentDecoder, AWindowAboveTheLimitIsRefused) {
  EXPECT_TRUE(decode("zstd", zstd(kText, 23)));
  EXPECT_EQ(decode("zstd", zstd(kText, 24)).error().code, ErrorCode::kInvalid);
}

TEST(ContentDecoder, UnknownAndTooManyCodingsAreRefused) {
  EXPECT_EQ(decode("compress", "x").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(decode("gzip;q=1", "x").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(decode("gzip gzip", "x").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(decode("aws-chunked", "x").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(decode("gzip,gzip,gzip,gzip", "x").error().code, ErrorCode::kLimit);
}

TEST(ContentDecoder, AnEmptyMessageIsComplete) {
  EXPECT_EQ(decode("gzip, br", "").value(), "");
}

TEST(ContentDecoder, AnErrorOfTheSinkEndsTheDecoding) {
  auto decoder = ContentDecoder::create("gzip").value();
  int calls = 0;
  const auto refuse = [&calls](std::string_view) -> Result<> {
    ++calls;
    return make_error(ErrorCode::kDenied, "look", "a secret");
  };
  EXPECT_EQ(decoder.feed(gzip(kText), refuse).error().code, ErrorCode::kDenied);
  EXPECT_FALSE(decoder.feed("x", refuse));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace pons::scan
