#include "pool.h"

#include <algorithm>
#include <thread>

#include "pons/base/log.h"

namespace pons::sandbox {

namespace {

constexpr std::size_t kQueuesMax = 16;
constexpr Duration kForgottenAfter = std::chrono::minutes(10);
constexpr Duration kLookAgain = std::chrono::seconds(5);

std::uint64_t key_of(const Pool::Entry& entry) {
  return entry.built.key;
}

}  // namespace

Pool::Pool(linux::Loop& loop, Spawning& spawning, Notes& notes, PoolSettings settings)
    : loop_(loop),
      spawning_(spawning),
      notes_(notes),
      settings_(settings),
      claimed_work_(std::thread::hardware_concurrency()),
      changed_(loop),
      tasks_(loop) {}

void Pool::start(SandboxSpec always) {
  Queue& queue = ensure(always);
  queue.always = true;
  tasks_.spawn(keep_filled());
  tasks_.spawn(keep_well());
}

void Pool::stop() {
  tasks_.cancel_all();
  building_ = 0;
  for (Queue& queue : queues_)
    for (Entry& entry : queue.entries) discard(entry);
  queues_.clear();
}

void Pool::discard(Entry& entry) {
  notes_.give_back(std::move(entry.note));
  spawning_.destroy_soon(entry.built.key);
}

Pool::Queue* Pool::find(const SandboxSpec& spec) {
  const auto found =
      std::ranges::find_if(queues_, [&](const Queue& q) { return same_spec(q.spec, spec); });
  return found == queues_.end() ? nullptr : &*found;
}

Pool::Queue& Pool::ensure(const SandboxSpec& spec) {
  if (Queue* queue = find(spec)) return *queue;
  if (queues_.size() >= kQueuesMax) {
    const auto oldest = std::ranges::max_element(queues_, {}, [&](const Queue& q) {
      return q.always ? Duration::min() : q.size.idle_time(loop_.now());
    });
    for (Entry& entry : oldest->entries) discard(entry);
    queues_.erase(oldest);
  }
  queues_.push_back({.spec = spec, .serial = next_serial_++});
  queues_.back().size.touch(loop_.now());
  return queues_.back();
}

std::optional<Pool::Entry> Pool::take(const SandboxSpec& spec, bool disk_is_derived) {
  ensure(spec).size.claimed(loop_.now());
  changed_.set();
  for (;;) {
    Queue* from = find(spec);
    if (from == nullptr || from->entries.empty()) {
      const auto other = std::ranges::find_if(queues_, [&](const Queue& q) {
        return !q.entries.empty() && can_become(q.spec, spec, disk_is_derived);
      });
      from = other == queues_.end() ? nullptr : &*other;
    }
    if (from == nullptr) return std::nullopt;
    // The oldest: its shell waits already.
    Entry entry = std::move(from->entries.front());
    from->entries.pop_front();
    if (entry.built.cell->health() == CellClient::Health::kGood) return entry;
    LOG_WARN("a waiting sandbox was not well");
    discard(entry);
  }
}

void Pool::drain(const std::vector<spawner::Digest>& template_layers) {
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    const bool stands_on_them = std::ranges::all_of(template_layers, [&](const auto& layer) {
      const auto& layers = queue->spec.template_layers;
      return std::ranges::find(layers, layer) != layers.end();
    });
    if (!stands_on_them || queue->always) {
      ++queue;
      continue;
    }
    for (Entry& entry : queue->entries) discard(entry);
    queue = queues_.erase(queue);
  }
}

std::size_t Pool::ready() const {
  std::size_t count = 0;
  for (const Queue& queue : queues_) count += queue.entries.size();
  return count;
}

std::vector<std::uint64_t> Pool::keys() const {
  std::vector<std::uint64_t> keys;
  for (const Queue& queue : queues_)
    for (const Entry& entry : queue.entries) keys.push_back(entry.built.key);
  return keys;
}

std::size_t Pool::target_of(const Queue& queue) const {
  const bool recent = queue.always || queue.size.idle_time(loop_.now()) < kForgottenAfter;
  return recent ? queue.size.target(loop_.now(), settings_.bounds) : 0;
}

std::size_t Pool::target(const SandboxSpec& spec) const {
  const auto found =
      std::ranges::find_if(queues_, [&](const Queue& q) { return same_spec(q.spec, spec); });
  return found == queues_.end() ? 0 : target_of(*found);
}

// A bash that has read its profiles is larger than all else that waits.
std::uint64_t Pool::bytes_of(const Queue& queue) {
  constexpr std::uint64_t kEntryBytes = 600 * 1024;
  constexpr std::uint64_t kLoginShellBytes = 400 * 1024;
  const bool login = (queue.spec.flags & spawner::kLoginShell) != 0;
  return (queue.entries.size() + static_cast<std::size_t>(queue.building)) *
         (kEntryBytes + (login ? kLoginShellBytes : 0));
}

bool Pool::has_room() const {
  constexpr std::uint64_t kOneMore = 1024 * 1024;
  std::uint64_t used = kOneMore;
  for (const Queue& queue : queues_) used += bytes_of(queue);
  return used <= settings_.memory_bytes;
}

// The queue that lacks most in proportion to what it should have.
Pool::Queue* Pool::neediest() {
  Queue* best = nullptr;
  double best_share = 1.0;
  for (Queue& queue : queues_) {
    const auto have = queue.entries.size() + static_cast<std::size_t>(queue.building);
    const std::size_t want = target_of(queue);
    if (have >= want) continue;
    const double share = static_cast<double>(have) / static_cast<double>(want);
    if (best == nullptr || share < best_share) {
      best = &queue;
      best_share = share;
    }
  }
  return best;
}

void Pool::shrink() {
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    const std::size_t want = target_of(*queue);
    // One more than wanted may stay: a rate that wavers must not build and destroy in turn.
    while (queue->entries.size() > want + (want > 0 ? 1 : 0)) {
      discard(queue->entries.back());
      queue->entries.pop_back();
    }
    const bool over = want == 0 && !queue->always && queue->building == 0 && queue->entries.empty();
    queue = over ? queues_.erase(queue) : std::next(queue);
  }
}

Task<> Pool::keep_filled() {
  for (;;) {
    shrink();
    TimePoint look_again = loop_.now() + kLookAgain;
    while (claims_ == 0 && building_ < PoolSize::kBuildsAtOnce && loop_.now() >= not_before_ &&
           has_room()) {
      Queue* queue = neediest();
      if (queue == nullptr) break;
      if (!queue->entries.empty() && loop_.now() < claimed_work_.busy_until()) {
        look_again = claimed_work_.busy_until();
        break;
      }
      tasks_.spawn(build_one(queue->spec, queue->serial));
    }
    changed_.reset();
    co_await changed_.wait(not_before_ > loop_.now() ? not_before_ : look_again);
  }
}

// One after the other, off the path of every claim: a cell that does not answer in time leaves.
Task<> Pool::keep_well() {
  for (;;) {
    co_await loop_.sleep_for(settings_.check_every);
    for (const std::uint64_t key : keys()) {
      const auto cell = cell_of(key);
      if (cell == nullptr || co_await cell->ping(loop_.now() + settings_.check_time)) continue;
      for (Queue& queue : queues_)
        if (const auto entry = std::ranges::find(queue.entries, key, key_of);
            entry != queue.entries.end()) {
          LOG_WARN("a waiting sandbox was not well");
          discard(*entry);
          queue.entries.erase(entry);
          changed_.set();
        }
    }
  }
}

std::shared_ptr<CellClient> Pool::cell_of(std::uint64_t key) const {
  for (const Queue& queue : queues_)
    for (const Entry& entry : queue.entries)
      if (entry.built.key == key) return entry.built.cell;
  return nullptr;
}

Task<> Pool::build_one(SandboxSpec spec, std::uint64_t serial) {
  ++building_;
  ++find(spec)->building;
  const TimePoint began = SystemClock().now();
  auto built = co_await spawning_.build(spec, make_key());
  --building_;
  // It may have been drained meanwhile: what stands on the old layers is not for the new queue.
  Queue* queue = find(spec);
  if (queue != nullptr && queue->serial != serial) queue = nullptr;
  if (queue != nullptr) --queue->building;
  if (!built) {
    failures_ = std::min(failures_ + 1, 6);
    not_before_ = loop_.now() + std::chrono::milliseconds(500) * (1 << failures_);
    LOG_WARN("cannot build a sandbox beforehand", {"error", built.error()});
  } else if (queue == nullptr) {
    spawning_.destroy_soon(built->key);
  } else {
    failures_ = 0;
    queue->size.built(SystemClock().now() - began);
    auto note = notes_.take();
    if (!note) LOG_ERROR("cannot write down a sandbox", {"error", note.error()});
    queue->entries.push_back({std::move(*built), spec, note ? std::move(*note) : Note()});
  }
  changed_.set();
}

}  // namespace pons::sandbox
