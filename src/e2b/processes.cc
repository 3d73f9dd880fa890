#include "processes.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "accounts.h"
#include "message.h"
#include "process_events.h"
#include "process_name.h"

namespace pons::e2b {

namespace {

using sandbox::JobInfo;
using sandbox::JobOffsets;
using sandbox::JobSpec;
using sandbox::JobStream;
using sandbox::Outcome;
using sandbox::TerminalSize;

constexpr std::size_t kTagBytesMax = 4096;
constexpr std::uint64_t kPidMax = UINT32_MAX;
constexpr std::size_t kHeldBytesMax = 16 * 1024;
constexpr int kAttachTries = 100;
constexpr Duration kAttachPause = std::chrono::milliseconds(250);

// ---- what is asked for

struct Wanted {
  std::optional<std::uint32_t> pid;
  std::string tag_code;
};

Result<Wanted> wanted_process(const Json& request) {
  const Json* process = find_field(request, "process");
  Wanted wanted;
  if (process != nullptr && find_field(*process, "tag") != nullptr) {
    wanted.tag_code = tag_code(TRY(text_field(*process, "tag")));
  } else if (process != nullptr && find_field(*process, "pid") != nullptr) {
    wanted.pid = static_cast<std::uint32_t>(TRY(number_field(*process, "pid", kPidMax)));
  } else {
    return make_error(ErrorCode::kInvalid, "find process", "name a process by its pid or tag");
  }
  return wanted;
}

// kKept: and those that ended so short a time ago that who was about to connect may still do so.
enum class Among : std::uint8_t { kRunning, kKept };
constexpr sandbox::Milliseconds kEndedKept = std::chrono::seconds(30);

Task<Result<JobInfo>> find_process(Call& call, const Json& request, Among among) {
  CO_TRY(const auto wanted, wanted_process(request));
  CO_TRY(const auto jobs,
         co_await call.awake([&call] { return call.provider.list_jobs(call.id()); }));
  std::optional<JobInfo> ended;
  for (const JobInfo& job : jobs) {
    const auto name = parse_process_name(job.id);
    if (!name) continue;
    if (wanted.pid ? *wanted.pid != job.pid : wanted.tag_code != name->tag_code) continue;
    if (job.outcome == Outcome::kRunning) co_return job;
    const bool is_kept = job.ended_ago.value_or(sandbox::Milliseconds(0)) < kEndedKept;
    if (among == Among::kKept && is_kept) ended = job;
  }
  if (ended) co_return std::move(*ended);
  co_return make_error(ErrorCode::kNotFound, "find process",
                       wanted.pid ? fmt::format("process with pid {} not found", *wanted.pid)
                                  : "process with this tag not found");
}

Result<TerminalSize> size_of(const Json& pty) {
  TerminalSize size;
  const Json* field = find_field(pty, "size");
  if (field == nullptr) return size;
  if (const auto rows = TRY(number_field(*field, "rows", UINT16_MAX)))
    size.rows = static_cast<std::uint16_t>(rows);
  if (const auto columns = TRY(number_field(*field, "cols", UINT16_MAX)))
    size.columns = static_cast<std::uint16_t>(columns);
  return size;
}

// What List tells of the process later. Too much of it is left out, the least telling first.
std::string label_of(const Json& process, const std::optional<std::string>& tag) {
  Json label = {{"config", process}};
  if (tag) label["tag"] = *tag;
  for (const char* part : {"envs", "args", "cwd", "cmd"}) {
    std::string text = dump_json(label);
    if (text.size() <= sandbox::kJobLabelBytesMax) return text;
    label["config"].erase(part);
  }
  return {};
}

Result<JobSpec> job_of(const Json& request) {
  const Json* process = find_field(request, "process");
  JobSpec job{.kill_at_timeout = true, .announce_start = true};
  if (process != nullptr) {
    job.argv.push_back(TRY(text_field(*process, "cmd")));
    for (std::string& argument : TRY(list_field(*process, "args")))
      job.argv.push_back(std::move(argument));
    job.environment = TRY(map_field(*process, "envs"));
    job.directory = TRY(text_field(*process, "cwd"));
  }
  if (job.argv.empty() || job.argv.front().empty())
    return make_error(ErrorCode::kInvalid, "start process", "name a command to run");
  std::optional<std::string> tag;
  if (find_field(request, "tag") != nullptr) tag = TRY(text_field(request, "tag"));
  if (tag && tag->size() > kTagBytesMax)
    return make_error(ErrorCode::kInvalid, "start process", "the tag is too long");
  if (const Json* pty = find_field(request, "pty")) job.terminal = TRY(size_of(*pty));
  // Clients from before the field write to standard input without having asked for it.
  job.input_open = TRY(flag_field(request, "stdin", true)) || job.terminal.has_value();
  job.id = make_process_name(job.terminal ? ProcessIo::kTerminal : ProcessIo::kPipes, tag);
  job.label = label_of(*process, tag);
  return job;
}

// ---- following

class Follower {
 public:
  // kFromNow: what was written before is nobody's, and no loss.
  enum class Begin : std::uint8_t { kFromStart, kFromNow };
  Follower(Call& call, RpcStream& events, std::string job, JobOffsets at, Begin begin)
      : call_(call),
        events_(events),
        job_(std::move(job)),
        io_(parse_process_name(job_).value_or(ProcessName()).io),
        at_(at),
        begin_(begin),
        output_begun_(begin == Begin::kFromStart),
        error_begun_(begin == Begin::kFromStart) {}

  Task<Result<void>> follow(std::unique_ptr<JobStream> stream) {
    for (;;) {
      const TimePoint wake = std::min(events_.deadline(), call_.loop.now() + events_.keep_alive());
      auto event = co_await stream->next(wake);
      if (event && *event) {
        CO_TRY(const bool over, co_await pass_on(**event, stream->has_next()));
        if (over) co_return co_await leave(std::move(stream));
      } else if (event || event.error().code == ErrorCode::kUnavailable) {
        CO_TRY_VOID(co_await events_.send_held());
        CO_TRY(stream, co_await attach_again());
      } else if (event.error().code != ErrorCode::kTimeout) {
        co_return std::move(event).error();
      } else if (call_.loop.now() >= events_.deadline()) {
        co_return past_deadline();
      } else if (call_.loop.now() >= wake) {
        CO_TRY_VOID(co_await events_.send(kKeepAliveEvent));
      }
    }
  }

 private:
  static Error past_deadline() {
    return make_error(ErrorCode::kTimeout, "follow process", "the time of this call is over");
  }

  // A gap that nobody is told of would be taken for the whole.
  static Error lost_error(std::uint64_t bytes) {
    return make_error(
        ErrorCode::kIo, "follow process",
        fmt::format("{} bytes of output are lost: they were not read in time; the process runs on",
                    bytes));
  }

  // An answer that was read to its end leaves its connection for the next question. It has come in
  // most cases, and is not worth much waiting.
  Task<Result<void>> leave(std::unique_ptr<JobStream> stream) {
    (void)co_await stream->next(call_.loop.now() + std::chrono::milliseconds(5));
    co_return {};
  }

  // True when it was the end.
  Task<Result<bool>> pass_on(const sandbox::JobEvent& event, bool more_is_here) {
    if (const auto* started = std::get_if<sandbox::JobStarted>(&event)) {
      CO_TRY_VOID(co_await events_.send(start_event(started->pid)));
      co_return false;
    }
    if (const auto* output = std::get_if<sandbox::Output>(&event)) {
      const bool is_output = output->stream == sandbox::Output::Stream::kOutput;
      const bool begun = std::exchange(is_output ? output_begun_ : error_begun_, true);
      if (output->lost > 0 && begun) {
        CO_TRY_VOID(co_await events_.send_held());
        co_return lost_error(output->lost);
      }
      (is_output ? at_.output : at_.error) = output->offset + output->bytes.size();
      if (more_is_here && events_.held_bytes() < kHeldBytesMax)
        events_.hold(data_event(*output, io_));
      else
        CO_TRY_VOID(co_await events_.send(data_event(*output, io_)));
      co_return false;
    }
    const auto& end = std::get<JobInfo>(event);
    if (end.outcome == Outcome::kInterrupted) {
      CO_TRY_VOID(co_await events_.send_held());
      co_return gone_error(call_.id());
    }
    // Who connected later has a time of his own; to him it is a process that was killed.
    if (end.outcome == Outcome::kTimeout && begin_ == Begin::kFromStart) co_return past_deadline();
    events_.hold(end_event(end));
    co_return true;
  }

  // The job lives on when the way to it is cut.
  Task<Result<std::unique_ptr<JobStream>>> attach_again() {
    for (int i = 1;; ++i) {
      auto stream = co_await call_.provider.attach(call_.id(), job_, at_);
      if (stream) co_return std::move(stream);
      if (stream.error().code != ErrorCode::kUnavailable || i == kAttachTries)
        co_return gone_error(call_.id());
      co_await call_.loop.sleep_for(kAttachPause);
    }
  }

  Call& call_;
  RpcStream& events_;
  std::string job_;
  ProcessIo io_;
  JobOffsets at_;
  Begin begin_;
  bool output_begun_;
  bool error_begun_;
};

Error start_error(Error error, const std::string& directory) {
  constexpr std::string_view kStep = "enter directory";
  if (error.code == ErrorCode::kInvalid &&
      (error.step == kStep || error.message.starts_with(kStep)))
    error.message = fmt::format("cwd '{}' does not exist", directory);
  return error;
}

}  // namespace

Task<Result<void>> start_process(Call& call, const Json& request, RpcStream& events) {
  CO_TRY(auto job, job_of(request));
  const std::string asked = job.directory;
  if (!job.directory.empty()) {
    CO_TRY(job.directory, co_await resolve_path(call, job.directory));
  }
  job.user = call.user;
  if (const auto timeout = events.timeout())
    job.timeout = std::chrono::duration_cast<sandbox::Milliseconds>(*timeout);
  auto stream =
      co_await call.awake([&call, &job] { return call.provider.execute(call.id(), job); });
  if (!stream) co_return start_error(std::move(stream).error(), asked);
  Follower follower(call, events, job.id, {}, Follower::Begin::kFromStart);
  co_return co_await follower.follow(std::move(*stream));
}

Task<Result<void>> connect_process(Call& call, const Json& request, RpcStream& events) {
  CO_TRY(const auto job, co_await find_process(call, request, Among::kKept));
  // What it wrote before is not repeated.
  const JobOffsets at{.output = job.output_bytes, .error = job.error_bytes};
  CO_TRY(auto stream, co_await call.provider.attach(call.id(), job.id, at));
  CO_TRY_VOID(co_await events.send(start_event(job.pid)));
  Follower follower(call, events, job.id, at, Follower::Begin::kFromNow);
  co_return co_await follower.follow(std::move(stream));
}

Task<Result<Json>> list_processes(Call& call, const Json&) {
  CO_TRY(const auto jobs,
         co_await call.awake([&call] { return call.provider.list_jobs(call.id()); }));
  Json list = Json::array();
  for (const JobInfo& job : jobs) {
    const auto name = parse_process_name(job.id);
    if (!name || job.outcome != Outcome::kRunning) continue;
    Json process = {{"pid", job.pid}, {"config", Json::object()}};
    // A label that a restart of the warden forgot leaves the tag, as far as it was short.
    if (const auto tag = tag_of(name->tag_code)) process["tag"] = *tag;
    if (const auto label = parse_json(job.label); label && label->is_object())
      for (const auto& [key, value] : label->items()) process[key] = value;
    list.push_back(std::move(process));
  }
  co_return Json{{"processes", std::move(list)}};
}

Task<Result<Json>> send_input(Call& call, const Json& request) {
  const Json* input = find_field(request, "input");
  std::optional<std::string> bytes;
  if (input != nullptr) {
    CO_TRY(bytes, bytes_field(*input, find_field(*input, "pty") != nullptr ? "pty" : "stdin"));
  }
  if (!bytes)
    co_return make_error(ErrorCode::kInvalid, "send input", "there is neither stdin nor pty");
  CO_TRY(const auto job, co_await find_process(call, request, Among::kRunning));
  auto sent = co_await call.provider.write_input(call.id(), job.id, std::move(*bytes));
  if (!sent && sent.error().code == ErrorCode::kConflict) sent.error().code = ErrorCode::kInternal;
  if (!sent) co_return std::move(sent).error();
  co_return Json::object();
}

Task<Result<Json>> close_stdin(Call& call, const Json& request) {
  CO_TRY(const auto job, co_await find_process(call, request, Among::kRunning));
  CO_TRY_VOID(co_await call.provider.close_input(call.id(), job.id));
  co_return Json::object();
}

Task<Result<Json>> send_signal(Call& call, const Json& request) {
  int number = 0;
  if (const Json* name = find_field(request, "signal")) {
    if (*name == "SIGNAL_SIGKILL" || *name == SIGKILL) number = SIGKILL;
    if (*name == "SIGNAL_SIGTERM" || *name == SIGTERM) number = SIGTERM;
  }
  if (number == 0)
    co_return make_error(ErrorCode::kInvalid, "send signal",
                         "the signal is SIGNAL_SIGKILL or SIGNAL_SIGTERM");
  CO_TRY(const auto job, co_await find_process(call, request, Among::kRunning));
  auto sent = co_await call.provider.signal(call.id(), job.id, number);
  // It has ended, and its last output is still on its way.
  if (!sent && sent.error().code == ErrorCode::kInvalid) sent.error().code = ErrorCode::kNotFound;
  if (!sent) co_return std::move(sent).error();
  co_return Json::object();
}

Task<Result<Json>> update_process(Call& call, const Json& request) {
  const Json* pty = find_field(request, "pty");
  CO_TRY(const auto job, co_await find_process(call, request, Among::kRunning));
  if (pty == nullptr) co_return Json::object();
  CO_TRY(const auto size, size_of(*pty));
  CO_TRY_VOID(co_await call.provider.resize(call.id(), job.id, size));
  co_return Json::object();
}

}  // namespace pons::e2b
