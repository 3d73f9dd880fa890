#include "jobs.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session_kill.h"

namespace pons::cell {
namespace {

constexpr uint64_t kTermGraceMs = 2000;
constexpr uint64_t kTerminalGraceMs = 50;
constexpr uint64_t kBufferBytesMin = 4096;
constexpr uint64_t kHeldTerminal = UINT64_MAX;  // drained_at_ms of one that waits for its reader
constexpr char kEndOfInputKey = 4;
constexpr uint32_t kOrphansMax = 1024;

uint64_t microseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
}

uint64_t after(uint64_t now, uint64_t delay) {
  return delay > UINT64_MAX - now ? UINT64_MAX : now + delay;
}

bool has_writers(const Job& job) {
  return job.streams[0].file > 0 || job.streams[1].file > 0;
}

// When a job whose output waits for a reader stops waiting.
uint64_t held_until(const Job& job) {
  if ((job.state.flags & kLossless) != 0) return UINT64_MAX;
  for (const OutputStream& stream : job.streams)
    if (stream.file > 0 && !stream.watched) return job.read_at_ms + kReaderMsMax;
  return UINT64_MAX;
}

char buffer[64 * 1024];

}  // namespace

Job* Jobs::find(const char name[kJobNameBytes]) {
  for (uint32_t i = 0; i < high_; ++i) {
    if (used_[i] && memcmp(jobs_[i].state.job, name, kJobNameBytes) == 0) return &jobs_[i];
  }
  return nullptr;
}

Job* Jobs::at(uint32_t index, uint32_t generation) {
  Job* job = at(index);
  return job != nullptr && job->generation == generation ? job : nullptr;
}

Job* Jobs::evict() {
  Job* oldest = nullptr;
  for (uint32_t i = 0; i < high_; ++i) {
    Job* job = at(i);
    if (job == nullptr || !job->reaped) continue;
    const bool is_open = has_writers(*job);
    if (oldest != nullptr && is_open != has_writers(*oldest)) {
      if (!is_open) oldest = job;
    } else if (oldest == nullptr || job->state.ended_ms < oldest->state.ended_ms) {
      oldest = job;
    }
  }
  if (oldest != nullptr) release(oldest);
  return oldest;
}

Job* Jobs::allocate(const char name[kJobNameBytes], const Start& start) {
  uint32_t index = 0;
  while (index < kJobsMax && used_[index]) ++index;
  Job* job = index < kJobsMax ? &jobs_[index] : evict();
  if (job == nullptr) return nullptr;
  index = index_of(job);
  used_[index] = true;
  if (index >= high_) high_ = index + 1;

  memset(&job->state, 0, sizeof job->state);
  memcpy(job->state.job, name, kJobNameBytes);
  job->state.flags = start.flags;
  job->generation = ++generation_;
  job->reaped = false;
  job->discards = false;
  job->verdict = Ended::kRunning;
  job->term_at_ms = job->kill_at_ms = job->drained_at_ms = 0;
  job->read_at_ms = now_ms();  // whoever starts it is about to read
  job->output_bytes_max = start.output_bytes_max;
  uint64_t capacity = start.buffer_bytes == 0 ? kBufferBytesDefault : start.buffer_bytes;
  if (capacity < kBufferBytesMin) capacity = kBufferBytesMin;
  for (OutputStream& stream : job->streams) {
    stream.file = 0;
    stream.watched = false;
    stream.drain_left = 0;
    stream.consumed = 0;
    drop_output(&stream);
    stream.ring.reset(capacity);
  }
  job->input = 0;
  job->input_watched = false;
  job->held_size = 0;
  return job;
}

void Jobs::run(Job* job, pid_t pid, Streams* streams, const Start& start) {
  const uint64_t now = now_ms();
  pids_[index_of(job)] = pid;
  job->state.pid = static_cast<uint32_t>(pid);
  job->state.started_ms = now;
  if (start.timeout_ms != 0) job->term_at_ms = after(now, start.timeout_ms);
  job->input = streams->own[0];
  for (int i = 0; i < 2; ++i) {
    job->streams[i].file = streams->own[i + 1];
    if (job->streams[i].file > 0) watch(job, i);
  }
  if ((start.flags & kInputOpen) == 0 && job->input > 0) close_input(job);
  *streams = Streams{};
}

void Jobs::release(Job* job) {
  const uint32_t index = index_of(job);
  for (int i = 0; i < 2; ++i) {
    // A server that was left in the background must not die of writing a line.
    if ((job->state.flags & kTerminal) == 0) {
      unwatch(job, i);
      orphan(&job->streams[i]);
    }
    close_stream(job, i);
  }
  close_input(job);
  for (OutputStream& stream : job->streams) {
    drop_output(&stream);
    stream.ring.reset(0);
  }
  used_[index] = false;
  pids_[index] = 0;
}

void Jobs::orphan(OutputStream* stream) {
  if (stream->file <= 0 || orphans_ == kOrphansMax) return;
  if (!poller_->add(stream->file, EPOLLIN, Source::kOrphan, static_cast<uint32_t>(stream->file)))
    return;
  ++orphans_;
  stream->file = 0;
}

void Jobs::on_orphan(int file) {
  const ssize_t size = read(file, buffer, sizeof buffer);
  if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR))) return;
  poller_->remove(file);
  close(file);
  --orphans_;
}

void Jobs::drop_output(OutputStream* stream) {
  if (stream->ring.memory_bytes() == 0) return;
  output_bytes_ -= stream->ring.memory_bytes();
  stream->ring.drop();
}

// The one that ended first, of those whose output nobody reads at this moment.
Job* Jobs::find_droppable(uint64_t now) {
  Job* oldest = nullptr;
  for (uint32_t i = 0; i < high_; ++i) {
    Job* job = at(i);
    if (job == nullptr || job->state.ended == Ended::kRunning) continue;
    uint64_t bytes = 0;
    bool was_read = true;
    for (const OutputStream& stream : job->streams) {
      bytes += stream.ring.memory_bytes();
      was_read = was_read && stream.consumed >= stream.ring.end();
    }
    if (bytes == 0 || (!was_read && now < job->read_at_ms + kReaderMsMax)) continue;
    if (oldest == nullptr || job->state.ended_ms < oldest->state.ended_ms) oldest = job;
  }
  return oldest;
}

// Output lies in the sandbox's own memory: without a bound for all of it together, jobs that have
// long ended would leave no room for the next one.
void Jobs::make_room(OutputStream* stream, uint64_t size) {
  Ring* ring = &stream->ring;
  const uint64_t before = ring->memory_bytes();
  const uint64_t room = ring->capacity() - before;
  const uint64_t more = size < room ? size : room;
  while (output_bytes_ + more > output_bytes_max_) {
    Job* old = find_droppable(now_ms());
    if (old == nullptr) break;
    for (OutputStream& dropped : old->streams) drop_output(&dropped);
  }
  if (output_bytes_ + more > output_bytes_max_) ring->stop_growing();
}

void Jobs::keep(OutputStream* stream, const char* bytes, uint64_t size) {
  Ring* ring = &stream->ring;
  make_room(stream, size);
  const uint64_t rest = output_bytes_ - ring->memory_bytes();
  ring->append(bytes, size);
  output_bytes_ = rest + ring->memory_bytes();
}

void Jobs::watch(Job* job, int stream) {
  OutputStream* out = &job->streams[stream];
  if (out->watched || out->file <= 0) return;
  const Source source = stream == 0 ? Source::kOutput : Source::kError;
  out->watched = poller_->add(out->file, EPOLLIN, source, index_of(job));
  if (stream == 0 && job->drained_at_ms == kHeldTerminal)
    job->drained_at_ms = now_ms() + kTerminalGraceMs;
}

void Jobs::unwatch(Job* job, int stream) {
  OutputStream* out = &job->streams[stream];
  if (out->watched) poller_->remove(out->file);
  out->watched = false;
}

// Nothing is read from it until there is room. A hang-up is reported even to those who ask for
// nothing, so it has to go altogether.
void Jobs::hold(Job* job, int stream) {
  unwatch(job, stream);
  if (stream == 0 && job->drained_at_ms != 0) job->drained_at_ms = kHeldTerminal;
}

bool Jobs::waits_for_reader(const Job& job) const {
  if ((job.state.flags & kLossless) != 0) return true;
  return !job.discards && now_ms() < job.read_at_ms + kReaderMsMax;
}

void Jobs::close_stream(Job* job, int stream) {
  OutputStream* out = &job->streams[stream];
  if (out->file <= 0) return;
  unwatch(job, stream);
  close(out->file);
  out->file = 0;
  out->drain_left = 0;
}

void Jobs::on_readable(uint32_t index, int stream) {
  Job* job = at(index);
  if (job == nullptr || job->streams[stream].file <= 0) return;
  OutputStream* out = &job->streams[stream];
  size_t room = sizeof buffer;
  // Ahead of reading: what is found to have no room then would go over what nobody has read.
  make_room(out, sizeof buffer);
  const uint64_t unread = out->ring.end() - out->consumed;
  const uint64_t left = unread < out->ring.capacity() ? out->ring.capacity() - unread : 0;
  if (left < room && waits_for_reader(*job)) {
    if (left == 0) return hold(job, stream);
    room = left;
  }
  const ssize_t size = read(out->file, buffer, room);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    close_stream(job, stream);
  } else {
    const auto count = static_cast<uint64_t>(size);
    out->drain_left -= count < out->drain_left ? count : out->drain_left;
    take_output(job, stream, buffer, count);
    if (job->drained_at_ms != 0) job->drained_at_ms = now_ms() + kTerminalGraceMs;
  }
  finish_if_drained(job);
}

void Jobs::take_output(Job* job, int stream, const char* bytes, size_t size) {
  if (job->discards) return;
  if (job->output_bytes_max != 0) {
    const uint64_t before = job->streams[0].ring.end() + job->streams[1].ring.end();
    const uint64_t left = job->output_bytes_max - before;
    if (size > left) {
      keep(&job->streams[stream], bytes, left);
      job->discards = true;
      if (!job->reaped) kill(job, Ended::kLimit);
      return;
    }
  }
  keep(&job->streams[stream], bytes, size);
}

void Jobs::kill(Job* job, Ended verdict) {
  if (job->verdict == Ended::kRunning) job->verdict = verdict;
  job->term_at_ms = 0;
  job->kill_at_ms = 0;
  kill_job_processes(static_cast<pid_t>(job->state.pid));
}

void Jobs::on_reaped(pid_t pid, int status, const rusage& usage) {
  uint32_t index = 0;
  while (index < high_ && pids_[index] != pid) ++index;
  if (index == high_) return;
  Job* job = &jobs_[index];
  pids_[index] = 0;
  job->reaped = true;
  job->state.ended_ms = now_ms();
  job->state.user_usec = microseconds(usage.ru_utime);
  job->state.system_usec = microseconds(usage.ru_stime);
  job->state.code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
  if (job->verdict != Ended::kRunning) kill_job_processes(pid);
  if (job->verdict == Ended::kRunning) {
    job->verdict = WIFEXITED(status) ? Ended::kExit : Ended::kSignal;
  }
  job->term_at_ms = 0;
  job->kill_at_ms = 0;
  close_input(job);
  for (OutputStream& stream : job->streams) {
    int waiting = 0;
    if (stream.file > 0 && ioctl(stream.file, FIONREAD, &waiting) == 0 && waiting > 0) {
      stream.drain_left = static_cast<uint64_t>(waiting);
    }
  }
  // The kernel brings a terminal's last bytes over to this side a moment later.
  if ((job->state.flags & kTerminal) != 0 && job->streams[0].file > 0) {
    job->drained_at_ms =
        job->streams[0].watched ? job->state.ended_ms + kTerminalGraceMs : kHeldTerminal;
  }
  finish_if_drained(job);
}

// Processes left in the background may keep the pipes open: what they write is kept as well, but
// the job does not wait for them.
void Jobs::finish_if_drained(Job* job) {
  if (!job->reaped || job->state.ended != Ended::kRunning) return;
  if (job->streams[0].drain_left > 0 || job->streams[1].drain_left > 0) return;
  if (job->drained_at_ms != 0 && job->streams[0].file > 0 && now_ms() < job->drained_at_ms) return;
  job->drained_at_ms = 0;
  job->state.ended = job->verdict;
}

void Jobs::run_timers(uint64_t now) {
  for (uint32_t i = 0; i < high_; ++i) {
    Job* job = at(i);
    if (job == nullptr) continue;
    if (job->term_at_ms != 0 && job->term_at_ms <= now) {
      const bool at_once = (job->state.flags & kKillAtTimeout) != 0;
      job->term_at_ms = 0;
      job->verdict = Ended::kTimeout;
      job->kill_at_ms = at_once ? now : now + kTermGraceMs;
      if (!at_once) ask_job_to_end(static_cast<pid_t>(job->state.pid));
    }
    if (job->kill_at_ms != 0 && job->kill_at_ms <= now) kill(job, Ended::kTimeout);
    if (job->drained_at_ms != 0 && job->drained_at_ms <= now) finish_if_drained(job);
    if (held_until(*job) <= now) {
      for (int stream = 0; stream < 2; ++stream) watch(job, stream);
      if (held_until(*job) <= now) job->read_at_ms = now;  // not possible now: later
    }
  }
}

uint64_t Jobs::next_timer() const {
  uint64_t next = UINT64_MAX;
  for (uint32_t i = 0; i < high_; ++i) {
    if (!used_[i]) continue;
    const Job& job = jobs_[i];
    const uint64_t times[] = {job.term_at_ms, job.kill_at_ms, job.drained_at_ms, held_until(job)};
    for (const uint64_t time : times) {
      if (time != 0 && time < next) next = time;
    }
  }
  return next;
}

bool Jobs::write_input(Job* job, uint64_t offset, const char* bytes, size_t size) {
  const uint64_t taken = job->state.input_taken;
  // A gap, a repetition of what it has, or a second writer: nothing is taken.
  if (job->input <= 0 || offset > taken || offset + size <= taken || job->held_size > 0)
    return true;
  bytes += taken - offset;
  size -= taken - offset;
  const ssize_t count = write(job->input, bytes, size);
  if (count > 0) {
    job->state.input_taken += static_cast<uint64_t>(count);
    return true;
  }
  if (count < 0 && errno != EAGAIN && errno != EINTR) {
    close_input(job);
    return true;
  }
  memcpy(job->held, bytes, size);
  job->held_size = size;
  job->held_from = taken;
  job->input_watched = poller_->add(job->input, EPOLLOUT, Source::kInput, index_of(job));
  return false;
}

void Jobs::on_writable(uint32_t index) {
  Job* job = at(index);
  if (job == nullptr || job->input <= 0 || job->held_size == 0) return;
  const ssize_t count = write(job->input, job->held, job->held_size);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    close_input(job);
    return;
  }
  job->state.input_taken += static_cast<uint64_t>(count);
  job->held_size = 0;
  if (job->input_watched) poller_->remove(job->input);
  job->input_watched = false;
}

void Jobs::close_input(Job* job) {
  job->held_size = 0;
  if (job->input <= 0) return;
  if (job->input_watched) poller_->remove(job->input);
  job->input_watched = false;
  // A terminal has no end of input but the key for it. A full one has no room and needs none.
  if ((job->state.flags & kTerminal) != 0 && !job->reaped) {
    [[maybe_unused]] const ssize_t count = write(job->input, &kEndOfInputKey, 1);
  }
  close(job->input);
  job->input = 0;
}

void Jobs::note_reader(Job* job, uint64_t output, uint64_t error) {
  const uint64_t offsets[2] = {output, error};
  job->read_at_ms = now_ms();
  for (int i = 0; i < 2; ++i) {
    OutputStream* stream = &job->streams[i];
    const uint64_t offset = offsets[i] < stream->ring.end() ? offsets[i] : stream->ring.end();
    if (offset > stream->consumed) stream->consumed = offset;
    watch(job, i);
  }
}

JobState Jobs::state_of(const Job& job) const {
  JobState state = job.state;
  state.output_end = job.streams[0].ring.end();
  state.output_kept = job.streams[0].ring.kept();
  state.error_end = job.streams[1].ring.end();
  state.error_kept = job.streams[1].ring.kept();
  return state;
}

}  // namespace pons::cell
