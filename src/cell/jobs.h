#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "launch.h"
#include "poller.h"
#include "pons/cell/protocol.h"
#include "ring.h"

namespace pons::cell {

// One of the two output streams of a job. Descriptors are 0 when there is none.
struct OutputStream {
  int file;
  bool watched;
  uint64_t drain_left;  // bytes of the first process that were in the pipe when it ended
  uint64_t consumed;    // how far the foremost reader says it is
  Ring ring;
};

struct Job {
  JobState state;  // offsets are filled in by state_of
  uint32_t generation;
  bool reaped;
  bool discards;        // past the output limit
  Ended verdict;        // why the cell killed it
  uint64_t term_at_ms;  // 0: never
  uint64_t kill_at_ms;
  uint64_t drained_at_ms;  // a terminal counts as drained then
  uint64_t read_at_ms;     // somebody asked for output last
  uint64_t output_bytes_max;
  OutputStream streams[2];
  int input;
  bool input_watched;
  size_t held_size;  // bytes of a kWrite for which there was no room yet
  uint64_t held_from;
  char held[kMessageBytesMax];
};

// The table of jobs and all that happens to them. All zero is an empty table; a slot costs memory
// once it is used, and the lowest free one is always taken.
class Jobs {
 public:
  void set_up(Poller* poller) {
    poller_ = poller;
    output_bytes_max_ = kOutputBytesDefault;
  }
  // What the output of all jobs may take together.
  void limit_output(uint64_t bytes) { output_bytes_max_ = bytes; }

  Job* find(const char name[kJobNameBytes]);
  Job* at(uint32_t index, uint32_t generation);
  Job* at(uint32_t index) { return used_[index] ? &jobs_[index] : nullptr; }
  uint32_t index_of(const Job* job) const { return static_cast<uint32_t>(job - jobs_); }

  // A slot for a new job, at the cost of one that ended: of those that nobody writes to any more,
  // or else of all, the one that ended first. nullptr when all run.
  Job* allocate(const char name[kJobNameBytes], const Start& start);
  void run(Job* job, pid_t pid, Streams* streams, const Start& start);
  void release(Job* job);

  void on_readable(uint32_t index, int stream);
  void on_writable(uint32_t index);
  // What a process still writes that outlived the memory of its job.
  void on_orphan(int file);
  void on_reaped(pid_t pid, int status, const rusage& usage);
  void run_timers(uint64_t now);
  uint64_t next_timer() const;  // UINT64_MAX: none

  // Takes bytes for standard input; false when they are held until there is room.
  bool write_input(Job* job, uint64_t offset, const char* bytes, size_t size);
  void close_input(Job* job);
  // A reader has everything before these offsets and wants more.
  void note_reader(Job* job, uint64_t output, uint64_t error);
  JobState state_of(const Job& job) const;

 private:
  Job* evict();
  void orphan(OutputStream* stream);
  Job* find_droppable(uint64_t now);
  // For so many bytes more: of jobs that have ended, or by an end to its growing.
  void make_room(OutputStream* stream, uint64_t size);
  void keep(OutputStream* stream, const char* bytes, uint64_t size);
  void drop_output(OutputStream* stream);
  void watch(Job* job, int stream);
  void unwatch(Job* job, int stream);
  void hold(Job* job, int stream);
  bool waits_for_reader(const Job& job) const;
  void close_stream(Job* job, int stream);
  void take_output(Job* job, int stream, const char* bytes, size_t size);
  void finish_if_drained(Job* job);
  void kill(Job* job, Ended verdict);

  Poller* poller_;
  uint64_t output_bytes_max_;
  uint64_t output_bytes_;  // that all rings take
  uint32_t orphans_;
  uint32_t high_;  // one past the highest slot ever used
  uint32_t generation_;
  bool used_[kJobsMax];
  pid_t pids_[kJobsMax];  // 0 when there is nothing to reap
  Job jobs_[kJobsMax];
};

}  // namespace pons::cell
