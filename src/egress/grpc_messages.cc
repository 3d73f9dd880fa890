#include "grpc_messages.h"

#include <algorithm>

#include "pons/base/text.h"

namespace pons::egress {

namespace {

constexpr std::size_t kHeadBytes = 5;
constexpr std::uint8_t kCompressed = 0x01;

struct Kind {
  std::string_view content_type;  // or the beginning of it
  std::string_view coding_field;
  std::uint8_t known_flags;
};
// The first that fits counts. gRPC-Web marks trailers, Connect the end.
constexpr Kind kKinds[] = {{"application/grpc-web-text", "grpc-encoding", 0},
                           {"application/grpc-web", "grpc-encoding", 0x81},
                           {"application/grpc", "grpc-encoding", 0x01},
                           {"application/connect+", "connect-content-encoding", 0x03}};

Error unreadable(const char* what) {
  return make_error(ErrorCode::kInvalid, "read gRPC message", what);
}

// Two answers to "how is it packed" are none.
std::string find_coding(const std::vector<http::Field>& fields, std::string_view name) {
  std::string coding;
  for (const http::Field& field : fields) {
    if (!equal_ignoring_case(field.name, name)) continue;
    if (!coding.empty() || field.value.contains(',')) return {};
    coding = field.value;
  }
  const auto decoder = scan::ContentDecoder::create(coding);
  return decoder && !decoder->is_identity() ? coding : "";
}

}  // namespace

std::optional<GrpcMessages> GrpcMessages::find(const std::vector<http::Field>& fields) {
  const auto type = std::ranges::find_if(fields, [](const http::Field& field) {
    return equal_ignoring_case(field.name, "content-type");
  });
  if (type == fields.end()) return std::nullopt;
  const auto kind = std::ranges::find_if(kKinds, [&](const Kind& one) {
    return equal_ignoring_case(type->value.substr(0, one.content_type.size()), one.content_type);
  });
  if (kind == std::end(kKinds)) return std::nullopt;
  GrpcMessages messages;
  messages.known_flags_ = kind->known_flags;
  messages.coding_ = find_coding(fields, kind->coding_field);
  // The text form has base64 around everything, so that no flag can be told: it is text as long as
  // nothing in it is said to be compressed, and otherwise cannot be read.
  if (kind->known_flags == 0 && messages.coding_.empty()) return std::nullopt;
  return messages;
}

Result<void> GrpcMessages::feed(std::string_view piece, const Sink& sink) {
  while (!piece.empty()) {
    if (!in_message_) {
      const std::size_t step = std::min(kHeadBytes - head_.size(), piece.size());
      head_ += piece.substr(0, step);
      piece.remove_prefix(step);
      if (head_.size() < kHeadBytes) return {};
      TRY_VOID(begin_message(sink));
    }
    const std::string_view part = piece.substr(0, std::min<std::uint64_t>(left_, piece.size()));
    piece.remove_prefix(part.size());
    left_ -= part.size();
    if (decoder_) {
      TRY_VOID(decoder_->feed(
          part, [&](std::string_view clear) { return sink(Part::kUnpacked, clear); }));
    } else if (!part.empty()) {
      TRY_VOID(sink(Part::kAsIs, part));
    }
    if (left_ == 0) TRY_VOID(end_message(sink));
  }
  return {};
}

Result<void> GrpcMessages::begin_message(const Sink& sink) {
  const auto flags = static_cast<std::uint8_t>(head_.front());
  if ((flags & ~known_flags_) != 0) return unreadable("it has a flag that nobody knows");
  left_ = 0;
  for (const char byte : std::string_view(head_).substr(1))
    left_ = left_ << 8 | static_cast<std::uint8_t>(byte);
  in_message_ = true;
  if ((flags & kCompressed) == 0) return sink(Part::kAsIs, head_);
  if (coding_.empty()) return unreadable("it is compressed in a way that is not declared");
  decoder_.emplace(TRY(scan::ContentDecoder::create(coding_)));
  return {};
}

Result<void> GrpcMessages::end_message(const Sink& sink) {
  in_message_ = false;
  const auto flags = static_cast<char>(head_.front() & ~kCompressed);
  head_.clear();
  if (!decoder_) return {};
  TRY_VOID(decoder_->finish());
  decoder_.reset();
  return sink(Part::kUnpackedEnd, {&flags, 1});
}

std::size_t GrpcMessages::memory_bytes_max() const {
  const auto decoder = scan::ContentDecoder::create(coding_);
  return decoder && !coding_.empty() ? decoder->memory_bytes_max() : 0;
}

Result<void> GrpcMessages::finish() const {
  if (in_message_ || !head_.empty()) return unreadable("the stream ends inside it");
  return {};
}

}  // namespace pons::egress
