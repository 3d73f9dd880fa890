#pragma once

#include <stdint.h>
#include <sys/epoll.h>

namespace pons::cell {

// Who is told about a descriptor; the index says which connection or job.
enum class Source : uint32_t {
  kListener,
  kSignals,
  kConnection,
  kInput,
  kOutput,
  kError,
  kShell,
  kOrphan,  // the index is the descriptor itself
};

uint64_t now_ms();

class Poller {
 public:
  bool open();
  bool add(int file, uint32_t events, Source source, uint32_t index);
  void change(int file, uint32_t events, Source source, uint32_t index);
  void remove(int file);
  int wait(epoll_event* events, int count, int timeout_ms);

  static Source source_of(const epoll_event& event) { return Source(event.data.u64 >> 32); }
  static uint32_t index_of(const epoll_event& event) { return uint32_t(event.data.u64); }

 private:
  int epoll_;
};

}  // namespace pons::cell
