#include "builtin_job.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "cell_request.h"
#include "job_stream.h"
#include "pons/base/id.h"
#include "pons/base/text.h"

namespace pons::sandbox {

namespace {

constexpr Milliseconds kReadWait = std::chrono::seconds(20);
constexpr std::uint32_t kFirstWaitMs = 50;
constexpr Duration kGrace = std::chrono::seconds(5);
constexpr Duration kStall = std::chrono::seconds(60);
constexpr std::size_t kComplaintBytesMax = 1024;
constexpr std::uint64_t kBufferBytes = 1ULL << 20;

Task<> forget(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string name, bool over) {
  const auto deadline = [&] { return fleet.loop().now() + kGrace; };
  if (!over) {
    (void)co_await fleet.ask(
        sandbox, signal_request(name, {.number = SIGKILL, .reach = cell::Reach::kGroup}),
        deadline());
    // Busy until it is dead.
    for (int attempt = 0; attempt < 10 && !sandbox->gone.is_set(); ++attempt) {
      auto gone = co_await fleet.ask(sandbox, plain_request(cell::Op::kForget, name), deadline());
      if (!gone || gone->os_error != EBUSY) co_return;
      co_await fleet.loop().sleep_for(std::chrono::milliseconds(10) * (1 << attempt));
    }
    co_return;
  }
  (void)co_await fleet.ask(sandbox, plain_request(cell::Op::kForget, name), deadline());
}

ErrorCode file_code(int error, ErrorCode usual) {
  switch (error) {
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
      return ErrorCode::kInvalid;
    case ENOTEMPTY:
    case ETXTBSY:
      return ErrorCode::kConflict;
    case EFBIG:
      return ErrorCode::kLimit;
    default:
      return usual;
  }
}

}  // namespace

BuiltinJob::BuiltinJob(Fleet& fleet, Call call, std::string name)
    : fleet_(fleet), call_(std::move(call)), name_(std::move(name)) {}

BuiltinJob::~BuiltinJob() {
  if (!call_->gone.is_set()) fleet_.spawn(forget(fleet_, call_.sandbox(), name_, over_));
}

Task<Result<std::unique_ptr<BuiltinJob>>> BuiltinJob::start(Fleet& fleet, Call call, Words words) {
  StartWords start{.job =
                       "\x01"
                       "file-" +
                       random_text(20),
                   .user = std::move(words.user),
                   .argv = std::move(words.argv)};
  start.numbers.flags =
      cell::kBuiltin | cell::kLossless | (words.has_input ? cell::kInputOpen : 0U);
  start.numbers.buffer_bytes = kBufferBytes;
  start.numbers.wait_ms = words.has_input ? 0 : kFirstWaitMs;
  CO_TRY(auto request, start_request(start));
  const std::shared_ptr<Sandbox> sandbox = call.sandbox();
  sandbox->shell_used = true;  // it may never have been started now
  CO_TRY(const auto answer, co_await fleet.ask(sandbox, std::move(request),
                                               fleet.loop().now() + std::chrono::seconds(10)));
  if (answer.status != cell::Status::kDone) co_return cell_error(answer, start.job);
  std::unique_ptr<BuiltinJob> job(new BuiltinJob(fleet, std::move(call), std::move(start.job)));
  CO_TRY_VOID(job->accept(answer.payload));
  co_return std::move(job);
}

Result<void> BuiltinJob::accept(std::string_view payload) {
  const auto answer =
      parse_read_answer(payload, {name_, offsets_.output, offsets_.error, kReadBytesMax});
  // Nothing may be lost of a file.
  if (!answer || answer->output_offset != offsets_.output) return fleet_.condemn(call_.sandbox());
  output_.append(answer->output);
  offsets_.output += answer->output.size();
  offsets_.error = answer->error_offset + answer->error.size();
  complaint_.append(answer->error.substr(
      0, kComplaintBytesMax - std::min(kComplaintBytesMax, complaint_.size())));
  if (answer->drained()) {
    over_ = true;
    exit_code_ = answer->state.ended == cell::Ended::kExit ? answer->state.code : EIO;
  }
  return {};
}

Error BuiltinJob::failure() const {
  std::string line(trim(std::string_view(complaint_).substr(0, complaint_.find('\n'))));
  if (!is_valid_utf8(line)) line = "(a message that is no UTF-8)";
  Error error = os_error("use file", std::move(line), exit_code_);
  error.code = file_code(exit_code_, error.code);
  return error;
}

Task<Result<std::string>> BuiltinJob::read(TimePoint deadline) {
  while (output_.empty() && !over_) {
    const TimePoint now = fleet_.loop().now();
    if (now >= deadline)
      co_return make_error(ErrorCode::kTimeout, "use file", "nothing happened meanwhile");
    const auto wait = std::clamp(std::chrono::duration_cast<Milliseconds>(deadline - now),
                                 Milliseconds{1}, kReadWait);
    const cell::Read read{.output_offset = offsets_.output,
                          .error_offset = offsets_.error,
                          .wait_ms = static_cast<std::uint32_t>(wait.count()),
                          .bytes_max = kReadBytesMax};
    CO_TRY(const auto answer,
           co_await fleet_.ask(call_.sandbox(), read_request(name_, read), now + wait + kGrace));
    if (answer.status != cell::Status::kDone) co_return cell_error(answer, name_);
    CO_TRY_VOID(accept(answer.payload));
  }
  if (output_.empty() && exit_code_ != 0) co_return failure();
  co_return std::exchange(output_, {});
}

Task<Result<std::string>> BuiltinJob::read_all(std::size_t bytes_max) {
  std::string all;
  for (;;) {
    CO_TRY(const auto piece, co_await read(fleet_.loop().now() + kStall));
    if (piece.empty()) co_return all;
    if (all.size() + piece.size() > bytes_max)
      co_return make_error(
          ErrorCode::kLimit, "use file",
          fmt::format("the answer has more than {} bytes; ask for less at once", bytes_max));
    all += piece;
  }
}

Task<Result<bool>> BuiltinJob::write(std::string bytes) {
  auto sent =
      co_await send_input(fleet_, call_.sandbox(), name_, input_offset_, std::move(bytes), kStall);
  if (!sent && sent.error().code == ErrorCode::kConflict) co_return false;
  if (!sent) co_return sent.error();
  input_offset_ = *sent;
  co_return true;
}

Task<Result<void>> BuiltinJob::close_input() {
  CO_TRY(const auto answer,
         co_await fleet_.ask(call_.sandbox(), plain_request(cell::Op::kCloseInput, name_),
                             fleet_.loop().now() + kGrace));
  (void)answer;  // already closed is closed
  co_return {};
}

}  // namespace pons::sandbox
