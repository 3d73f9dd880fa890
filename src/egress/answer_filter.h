#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "body_memory.h"
#include "grpc_messages.h"
#include "judge.h"
#include "pons/http/head.h"
#include "pons/scan/content_decoder.h"
#include "pons/scan/scanner.h"
#include "pons/scan/scrubber.h"
#include "turn.h"

namespace pons::egress {

// An answer on its way in. What comes from a host that gets secrets has every secret replaced by
// its stub, in the head, the body and the trailers: the host may show what it was sent, now or
// later.
class AnswerFilter {
 public:
  // The refusal when the answer comes in a form that cannot be looked into, or when too many do.
  static std::expected<AnswerFilter, Refusal> open(Boundary& boundary, AttachedSandbox& sandbox,
                                                   const Judged& judged,
                                                   const http::ResponseHead& head);

  http::Response take_head() { return std::move(head_); }

  // What is delivered may be a thousand times as long as what came.
  bool unpacks() const { return decoder_ || messages_; }
  // As much as is looked at before others have a turn.
  std::size_t slice_bytes() const {
    if (!scrubber_) return std::string::npos;
    return unpacks() ? Turn::kPackedSliceBytes : Turn::kSliceBytes;
  }
  // Appends what may be delivered. kDenied: the answer must be cut off here.
  Result<void> feed(std::string_view piece, std::string& out);
  Result<void> finish(std::string& out);
  // Nothing when a value cannot be delivered.
  std::optional<std::string> clean(std::string_view text) const;
  // The same for the name of a field, where letters may have lost their case.
  std::optional<std::string> clean_name(std::string_view name) const;
  // For answers that are messages: `message`, as it may be delivered. A secret that is spread over
  // several cannot be replaced, because its beginning has arrived: kDenied before its end does.
  Result<void> pass_message(std::string& message);

  bool has_scrubbed() const;

 private:
  AnswerFilter() = default;
  Result<void> unpack(std::string_view clear, std::string& out);
  Result<void> scrub(std::string_view piece, std::string& out);
  bool holds_secret(const http::ResponseHead& head) const;
  std::expected<void, Refusal> take_fields(const http::ResponseHead& head);

  const Boundary* boundary_ = nullptr;
  const AttachedSandbox* sandbox_ = nullptr;
  scan::NeedleSets secrets_;  // empty: nothing is changed
  scan::Replacements replacements_;
  bool rewritable_ = true;
  mutable bool scrubbed_field_ = false;
  std::optional<scan::Scrubber> scrubber_;
  BodyMemory memory_;  // for the decoder
  std::optional<scan::ContentDecoder> decoder_;
  std::optional<GrpcMessages> messages_;
  std::string unpacked_;  // of the message at hand
  http::Response head_;
};

}  // namespace pons::egress
