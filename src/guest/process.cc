#include "process.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::guest {

namespace {

constexpr std::size_t kErrorBytesKept = 4'096;
constexpr std::size_t kWriteBytes = 256 * 1024;
// A harness that does not read what it is told is broken.
constexpr std::size_t kUnwrittenBytesMax = 32 << 20;
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::seconds(1);
// A warden that is started again is back long before.
constexpr Duration kPatience = std::chrono::seconds(60);

constexpr std::size_t kUnheardBytesMax = 64 << 20;

// About what it takes in memory.
std::size_t size_of(const harness::Event& event) {
  const auto text = [](const auto& each) -> std::size_t {
    if constexpr (requires { each.input.size(); }) return each.input.size();
    if constexpr (requires { each.text.size(); }) return each.text.size();
    if constexpr (requires { each.message.size(); }) return each.message.size();
    return 0;
  };
  return sizeof event + std::visit(text, event);
}

bool may_be_back(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout ||
         error.os_error == ECONNREFUSED || error.os_error == ENOENT;
}

std::string describe(const sandbox::JobInfo& end) {
  const char* how = "it ended";
  if (end.outcome == sandbox::Outcome::kOutOfMemory) how = "it needed more memory than it may have";
  if (end.outcome == sandbox::Outcome::kSignal) how = "it was ended by a signal";
  if (end.outcome == sandbox::Outcome::kOutputLimit) how = "it wrote more than it may";
  return fmt::format("{} (code {}){}{}", how, end.code, end.note.empty() ? "" : ": ", end.note);
}

}  // namespace

Process::Process(linux::Loop& loop, sandbox::Provider& provider, std::string sandbox,
                 std::string job, std::unique_ptr<harness::Adapter> adapter)
    : loop_(loop),
      provider_(provider),
      sandbox_(std::move(sandbox)),
      job_(std::move(job)),
      conversation_(std::move(adapter)),
      begun_at_(loop.now()),
      heard_at_(begun_at_),
      news_(loop),
      to_write_(loop),
      tasks_(loop) {}

Task<Result<void>> Process::start(sandbox::JobSpec spec) {
  spec.id = job_;
  spec.input_open = true;
  CO_TRY(auto stream, co_await provider_.execute(sandbox_, std::move(spec)));
  begun_at_ = heard_at_ = loop_.now();
  take_output(conversation_.start());
  tasks_.spawn(follow(std::move(stream)));
  tasks_.spawn(write());
  co_return {};
}

// ---- what it says

void Process::take_output(harness::Output output) {
  for (std::string& line : output.lines) {
    unwritten_ += line;
    unwritten_ += '\n';
  }
  if (!output.lines.empty()) to_write_.set();
  if (unwritten_.size() > kUnwrittenBytesMax) return lose("it does not read what it is told");
  if (output.events.empty()) return;
  heard_at_ = loop_.now();
  for (const harness::Event& event : output.events) unheard_bytes_ += size_of(event);
  if (unheard_bytes_ > kUnheardBytesMax) return lose("it says more than anybody can hear");
  std::ranges::move(output.events, std::back_inserter(events_));
  news_.set();
}

std::optional<harness::Event> Process::take() {
  if (events_.empty()) return std::nullopt;
  harness::Event event = std::move(events_.front());
  events_.pop_front();
  if (events_.empty()) unheard_bytes_ = 0;
  return event;
}

bool Process::has_unheard_end() const {
  return std::ranges::any_of(events_, [](const harness::Event& event) {
    return std::holds_alternative<harness::Idle>(event);
  });
}

bool Process::has_result(std::string_view call) const {
  return std::ranges::any_of(events_, [&](const harness::Event& event) {
    const auto* result = std::get_if<harness::ToolResult>(&event);
    return result != nullptr && result->id == call;
  });
}

std::optional<harness::ToolResult> Process::take_result(std::string_view call) {
  for (auto event = events_.begin(); event != events_.end(); ++event) {
    auto* result = std::get_if<harness::ToolResult>(&*event);
    if (result == nullptr || result->id != call) continue;
    harness::ToolResult taken = std::move(*result);
    events_.erase(event);
    return taken;
  }
  return std::nullopt;
}

// The job's output is joined again where this left it.
Task<> Process::follow(std::unique_ptr<sandbox::JobStream> stream) {
  std::optional<TimePoint> failing;
  for (Duration pause = kFirstPause; !has_ended_;) {
    if (stream != nullptr && co_await follow_once(*stream)) {
      failing.reset();
      pause = kFirstPause;
    }
    if (has_ended_) break;
    stream.reset();
    if (!failing) failing = loop_.now();
    if (loop_.now() - *failing > kPatience) co_return lose("its sandbox cannot be reached");
    co_await loop_.sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
    auto again = co_await provider_.attach(sandbox_, job_, at_);
    if (!again && !may_be_back(again.error()))
      co_return lose(fmt::format("its sandbox is gone ({})", again.error().describe()));
    if (again) stream = std::move(*again);
  }
}

// True when anything was heard.
Task<bool> Process::follow_once(sandbox::JobStream& stream) {
  bool has_heard = false;
  while (!has_ended_) {
    const auto event = co_await stream.next(kNever);
    if (!event || !*event) break;
    has_heard = true;
    if (const auto* piece = std::get_if<sandbox::Output>(&**event)) {
      if (piece->stream == sandbox::Output::Stream::kOutput) {
        at_.output = piece->offset + piece->bytes.size();
        if (piece->lost > 0) lose("part of what it wrote is lost");
        take_output(conversation_.feed(piece->bytes));
      } else {
        at_.error = piece->offset + piece->bytes.size();
        errors_ += piece->bytes;
        if (errors_.size() > kErrorBytesKept) errors_.erase(0, errors_.size() - kErrorBytesKept);
      }
    }
    if (const auto* end = std::get_if<sandbox::JobInfo>(&**event)) lose(describe(*end));
  }
  co_return has_heard;
}

// No more will come of it.
void Process::lose(std::string why) {
  if (std::exchange(has_ended_, true)) return;
  if (const std::string said = complaints(); !said.empty()) why += "; it said: " + said;
  harness::Output last = conversation_.ended(why);
  std::ranges::move(last.events, std::back_inserter(events_));
  news_.set();
  to_write_.set();
}

std::string Process::complaints() const {
  constexpr std::size_t kShown = 600;
  std::string text = fmt::format("{}", fmt::join(conversation_.garbage(), "\n"));
  if (!text.empty() && !errors_.empty()) text += '\n';
  text += errors_;
  text = std::string(trim(text));
  if (text.size() > kShown) text.erase(0, text.size() - kShown);
  while (!text.empty() && !is_valid_utf8(text)) text.erase(0, 1);
  return text;
}

// ---- what it is told

Task<> Process::write() {
  for (;;) {
    co_await to_write_.wait(kNever);
    to_write_.reset();
    while (!unwritten_.empty() && !has_ended_) {
      const std::string piece = unwritten_.substr(0, kWriteBytes);
      const auto written = co_await provider_.write_input(sandbox_, job_, piece);
      // Whether it has arrived is not known, and half a line is none.
      if (!written)
        co_return lose(fmt::format("it cannot be told anything ({})", written.error().describe()));
      unwritten_.erase(0, piece.size());
    }
    if (has_ended_) co_return;
  }
}

Result<void> Process::send(std::string text) {
  if (has_ended_) return make_error(ErrorCode::kUnavailable, "send to harness", "it has ended");
  take_output(TRY(conversation_.send(std::move(text))));
  return {};
}

void Process::interrupt() {
  take_output(conversation_.interrupt());
}

void Process::answer(const std::string& request, const harness::ToolAnswer& answer) {
  take_output(conversation_.answer(request, answer));
}

void Process::decide(const std::string& question, const harness::Decision& decision) {
  take_output(conversation_.decide(question, decision));
}

Task<> Process::end() {
  (void)co_await provider_.kill(sandbox_, job_);
  lose("it was ended");
}

}  // namespace pons::guest
