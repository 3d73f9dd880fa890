#include "poller.h"

#include <time.h>

namespace pons::cell {
namespace {

epoll_event event_for(uint32_t events, Source source, uint32_t index) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = static_cast<uint64_t>(source) << 32 | index;
  return event;
}

}  // namespace

uint64_t now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
}

bool Poller::open() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  return epoll_ >= 0;
}

bool Poller::add(int file, uint32_t events, Source source, uint32_t index) {
  epoll_event event = event_for(events, source, index);
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, file, &event) == 0;
}

void Poller::change(int file, uint32_t events, Source source, uint32_t index) {
  epoll_event event = event_for(events, source, index);
  epoll_ctl(epoll_, EPOLL_CTL_MOD, file, &event);
}

void Poller::remove(int file) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, file, nullptr);
}

int Poller::wait(epoll_event* events, int count, int timeout_ms) {
  return epoll_wait(epoll_, events, count, timeout_ms);
}

}  // namespace pons::cell
