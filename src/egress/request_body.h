#pragma once

#include <optional>
#include <string>

#include "body_memory.h"
#include "grpc_messages.h"
#include "judge.h"
#include "pons/scan/content_decoder.h"
#include "pons/scan/scanner.h"

namespace pons::egress {

// The body of a request on its way out. Every byte is looked at, in the form in which it is sent
// and, where it or a message in it is compressed, in the form that it has for its reader; what
// holds something that must not leave is not handed on.
class RequestBody {
 public:
  // A body of this size is looked at as a whole before anything leaves.
  static constexpr std::size_t kSmallBytes = 64 * 1024;

  // The refusal when the body comes in a coding that cannot be looked into, or when too many are on
  // their way.
  static std::expected<RequestBody, Refusal> open(Boundary& boundary, AttachedSandbox& sandbox,
                                                  http::Exchange& exchange, const Judged& judged);

  // As http::BodySource. An error with finding() set means that the request must end here.
  Task<Result<std::string_view>> next();
  // Takes the whole body if it is a small one: then a refusal comes before the first byte leaves.
  // Nothing when there is more.
  Task<Result<std::optional<std::string>>> take_small();

  const std::optional<scan::Finding>& finding() const { return finding_; }
  bool is_undecodable() const { return undecodable_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  RequestBody(http::Exchange& exchange, scan::NeedleSets forbidden);
  Result<void> look_at(std::string_view piece);
  Result<void> look_inside(std::string_view clear);
  Result<void> look_at_end();

  http::Exchange* exchange_;
  BodyMemory memory_;  // for what follows
  scan::NeedleSets forbidden_;
  std::optional<scan::Scanner> scanner_;
  std::optional<scan::ContentDecoder> decoder_;
  std::optional<GrpcMessages> messages_;
  std::optional<scan::Scanner> decoded_scanner_;
  std::optional<scan::Finding> finding_;
  bool undecodable_ = false;
  std::uint64_t bytes_ = 0;
  std::string taken_;           // by take_small(), to be handed out first
  std::string exchange_piece_;  // what was handed out of it
  bool ended_ = false;
};

}  // namespace pons::egress
