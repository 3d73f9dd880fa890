#include "pons/scan/content_decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "characters.h"
#include "content_stage.h"

namespace pons::scan {

namespace {

constexpr const char* kStep = "undo content coding";

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::unique_ptr<ContentDecoder::Stage> create_stage(std::string_view name) {
  if (equal_ignoring_case(name, "gzip") || equal_ignoring_case(name, "x-gzip")) {
    return create_zlib_stage(ZlibFormat::kGzip);
  }
  if (equal_ignoring_case(name, "deflate")) return create_zlib_stage(ZlibFormat::kDeflate);
  if (equal_ignoring_case(name, "br")) return create_brotli_stage();
  if (equal_ignoring_case(name, "zstd")) return create_zstd_stage();
  return nullptr;
}

}  // namespace

ContentDecoder::ContentDecoder() = default;
ContentDecoder::ContentDecoder(ContentDecoder&&) noexcept = default;
ContentDecoder& ContentDecoder::operator=(ContentDecoder&&) noexcept = default;
ContentDecoder::~ContentDecoder() = default;

Result<ContentDecoder> ContentDecoder::create(std::string_view codings) {
  ContentDecoder decoder;
  while (!codings.empty()) {
    const std::size_t comma = std::min(codings.find(','), codings.size());
    const std::string_view name = trim(codings.substr(0, comma));
    codings.remove_prefix(std::min(comma + 1, codings.size()));
    if (name.empty() || equal_ignoring_case(name, "identity")) continue;
    if (decoder.stages_.size() == kContentCodingsMax) {
      return make_error(ErrorCode::kLimit, kStep,
                        "more than " + std::to_string(kContentCodingsMax) + " content codings");
    }
    auto stage = create_stage(name);
    if (!stage) {
      return make_error(ErrorCode::kUnsupported, kStep,
                        "unknown content coding; use gzip, deflate, br, zstd or identity");
    }
    decoder.stages_.insert(decoder.stages_.begin(), std::move(stage));
  }
  return decoder;
}

std::size_t ContentDecoder::memory_bytes_max() const {
  std::size_t bytes = 0;
  for (const auto& stage : stages_) bytes += stage->memory_bytes_max();
  return bytes;
}

Result<> ContentDecoder::feed(std::string_view piece, const Sink& sink) {
  if (has_failed_)
    return make_error(ErrorCode::kInvalid, kStep, "the body failed to decode before");
  bytes_in_ += piece.size();
  auto fed = feed_stage(0, piece, sink);
  has_failed_ = !fed;
  return fed;
}

Result<> ContentDecoder::feed_stage(std::size_t stage, std::string_view piece, const Sink& sink) {
  if (piece.empty()) return {};
  if (stage == stages_.size()) return sink(piece);
  Stage& current = *stages_[stage];
  return current.feed(piece, [&](std::string_view decoded) -> Result<> {
    current.bytes_out += decoded.size();
    if (current.bytes_out > std::max(kExpansionFreeBytes, bytes_in_ * kExpansionMax)) {
      return make_error(ErrorCode::kLimit, kStep,
                        "the body expands more than " + std::to_string(kExpansionMax) + " times");
    }
    return feed_stage(stage + 1, decoded, sink);
  });
}

Result<> ContentDecoder::finish() {
  if (has_failed_)
    return make_error(ErrorCode::kInvalid, kStep, "the body failed to decode before");
  if (bytes_in_ == 0) return {};
  for (const auto& stage : stages_) {
    if (stage->is_complete()) continue;
    has_failed_ = true;
    return make_error(ErrorCode::kInvalid, kStep, "the compressed body ends too early");
  }
  return {};
}

}  // namespace pons::scan
