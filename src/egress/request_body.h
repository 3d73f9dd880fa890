#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "body_memory.h"
#include "body_swap.h"
#include "foreign_fields.h"
#include "grpc_messages.h"
#include "judge.h"
#include "pons/linux/loop.h"
#include "pons/scan/content_decoder.h"
#include "pons/scan/scanner.h"
#include "turn.h"

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

  // As http::BodySource. An error with is_stopped() means that the request must end here.
  Task<Result<std::string_view>> next();
  // Takes the whole body if it is a small one: then a refusal comes before the first byte leaves.
  // Nothing when there is more, or when one whose end nobody has announced pauses: its client may
  // be waiting for an answer. A stub where a binding declares it has become the secret.
  Task<Result<std::optional<std::string>>> take_small();

  const std::optional<scan::Finding>& finding() const { return forbidden_.found; }
  bool is_undecodable() const { return undecodable_; }
  bool has_foreign_credential() const { return foreign_; }
  bool is_stopped() const { return finding() || undecodable_ || foreign_; }
  // A stub that passes as it is.
  const std::optional<scan::Finding>& tolerated() const { return tolerated_.found; }
  const std::vector<std::shared_ptr<const vault::Credential>>& swapped() const { return swapped_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  // Looks for one list of texts, in the body as it is sent and as it is read.
  struct Lookout {
    explicit Lookout(const scan::NeedleSets& sets);
    void see(std::string_view piece) { take(sent, piece); }
    void see_decoded(std::string_view piece) { take(read, piece); }
    void see_end();
    void take(std::optional<scan::Scanner>& scanner, std::string_view piece);
    std::optional<scan::Scanner> sent;
    std::optional<scan::Scanner> read;
    std::optional<scan::Finding> found;
  };

  // A piece that is waited for, by whoever waits for it.
  struct Awaited {
    explicit Awaited(linux::Loop& loop) : came(loop), reader(loop) {}
    linux::Event came;
    std::optional<Result<std::string_view>> piece;
    linux::TaskGroup reader;  // last: it uses the above
  };

  RequestBody(http::Exchange& exchange, const Judged& judged);
  Task<bool> comes_soon();
  Task<> await_piece();
  Task<Result<std::string_view>> read_piece();
  Task<Result<void>> look_through(std::string_view piece);
  Result<void> look_at(std::string_view piece);
  Result<void> look_at_fields(std::string_view clear);
  Result<void> look_inside(std::string_view clear);
  Result<void> look_at_decoded(std::string_view clear);
  Result<void> look_at_end();
  Task<Result<std::optional<std::string>>> take_and_swap();

  http::Exchange* exchange_;
  BodyMemory memory_;  // for what follows
  Lookout forbidden_;
  Lookout tolerated_;
  std::optional<scan::ContentDecoder> decoder_;
  std::optional<GrpcMessages> messages_;
  bool undecodable_ = false;
  std::vector<BodyBinding> bindings_;
  BodyForm form_ = BodyForm::kOther;
  std::optional<ForeignFields> fields_;  // toward hosts that take no credentials but ours
  bool foreign_ = false;
  std::vector<std::shared_ptr<const vault::Credential>> swapped_;
  std::uint64_t bytes_ = 0;
  Turn turn_;
  std::string taken_;           // by take_small(), to be handed out first
  std::string exchange_piece_;  // what was handed out of it
  bool ended_ = false;
  Duration pause_{};  // after which it is no small one
  std::unique_ptr<Awaited> awaited_;
};

}  // namespace pons::egress
