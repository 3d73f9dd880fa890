#include "remote_job.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/sandbox/wire.h"

namespace pons::sandbox {

namespace {

constexpr const char* kStep = "follow job";
constexpr std::size_t kJobIdBytesMax = 96;

}  // namespace

Task<Result<void>> RemoteJob::open(TimePoint deadline) {
  CO_TRY(const auto line, co_await lines_.next(deadline));
  if (!line)
    co_return make_error(ErrorCode::kUnavailable, kStep, "the answer ended before it began");
  CO_TRY(const Json json, parse_json(*line));
  if (!json.is_object() || json.size() != 1 || !json.contains("job") || !json["job"].is_string())
    co_return make_error(ErrorCode::kInvalid, kStep, "the answer does not begin with {\"job\":ID}");
  id_ = json["job"].get<std::string>();
  if (id_.empty() || id_.size() > kJobIdBytesMax)
    co_return make_error(ErrorCode::kInvalid, kStep,
                         fmt::format("a job's id has 1 to {} bytes", kJobIdBytesMax));
  co_return {};
}

Error RemoteJob::cut(Error error) const {
  if (error.code != ErrorCode::kUnavailable) return error;
  return make_error(
      ErrorCode::kUnavailable, kStep,
      fmt::format("the stream of job {} was cut at output={} error={}; attach again from there: {}",
                  id_, at_.output, at_.error, error.describe()));
}

Result<void> RemoteJob::advance(const Output& output) {
  std::uint64_t& at = output.stream == Output::Stream::kOutput ? at_.output : at_.error;
  if (output.offset < at)
    return make_error(ErrorCode::kInvalid, kStep,
                      fmt::format("output goes back from {} to {}", at, output.offset));
  at = output.offset + output.bytes.size();
  return {};
}

Task<Result<std::optional<JobEvent>>> RemoteJob::next(
    std::chrono::steady_clock::time_point deadline) {
  using Event = std::optional<JobEvent>;
  if (ended_) {
    // An answer read to its end leaves a connection for the next request.
    (void)co_await lines_.next(deadline);
    co_return Event();
  }
  auto line = co_await lines_.next(deadline);
  if (!line) co_return cut(std::move(line).error());
  if (!*line)
    co_return cut(make_error(ErrorCode::kUnavailable, kStep, "it ended before the job did"));
  CO_TRY(const Json json, parse_json(**line));
  CO_TRY(JobEvent event, from_json<JobEvent>(json));
  if (const auto* output = std::get_if<Output>(&event)) CO_TRY_VOID(advance(*output));
  ended_ = std::holds_alternative<JobInfo>(event);
  co_return Event(std::move(event));
}

Task<Result<FileChange>> RemoteChanges::next(std::chrono::steady_clock::time_point deadline) {
  CO_TRY(const auto line, co_await lines_.next(deadline));
  if (!line) co_return make_error(ErrorCode::kUnavailable, "watch files", "the watch has ended");
  CO_TRY(const Json json, parse_json(*line));
  co_return from_json<FileChange>(json);
}

}  // namespace pons::sandbox
