#include "watchers.h"

#include <algorithm>

#include "entry.h"
#include "pons/base/id.h"

namespace pons::e2b {

namespace {

constexpr std::size_t kWatchersPerSandboxMax = 2000;
constexpr std::size_t kSourcesPerSandboxMax = 64;
// Of both kinds: a user of a sandbox has 128 from the kernel, and its programs need some.
constexpr std::size_t kWatchesPerSandboxMax = 96;
constexpr std::size_t kKeptBytesMax = 1U << 20;  // of one place
constexpr Duration kForgetAfter = std::chrono::minutes(5);
constexpr Duration kLook = std::chrono::seconds(30);
constexpr std::size_t kChangeBytes = 64;  // beside its path

Error too_many() {
  return make_error(ErrorCode::kLimit, "create watcher", "the sandbox has too many watchers");
}

Error no_such_watcher(const std::string& id) {
  return make_error(ErrorCode::kNotFound, "find watcher",
                    "watcher with id " + id.substr(0, 64) + " not found");
}

}  // namespace

// One watch in the sandbox. Its changes are numbered; the oldest go when there are too many.
struct Watchers::Source {
  explicit Source(linux::Loop& loop) : tasks(loop) {}
  std::unique_ptr<sandbox::ChangeStream> stream;
  std::deque<sandbox::FileChange> changes;
  std::uint64_t first = 0;
  std::size_t bytes = 0;
  std::size_t users = 0;
  bool over = false;
  linux::TaskGroup tasks;  // last: its task uses all of the above

  std::uint64_t end() const { return first + changes.size(); }
  void add(sandbox::FileChange change) {
    bytes += change.path.size() + kChangeBytes;
    changes.push_back(std::move(change));
    while (bytes > kKeptBytesMax) {
      bytes -= changes.front().path.size() + kChangeBytes;
      changes.pop_front();
      ++first;
    }
  }
};

struct Watchers::Watcher {
  Watcher(std::shared_ptr<Source> s, std::string p, bool include)
      : source(std::move(s)), path(std::move(p)), include_entry(include), at(source->end()) {
    ++source->users;
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher() { --source->users; }

  std::shared_ptr<Source> source;  // shared by watchers of the same place
  std::string path;
  bool include_entry;
  std::uint64_t at;
  TimePoint asked{};
};

Watchers::Watchers(linux::Loop& loop) : loop_(loop), tasks_(loop) {
  tasks_.spawn(forget_idle());
}

Watchers::~Watchers() = default;

Watchers::Room::Room(Watchers& watchers, std::string sandbox)
    : watchers_(&watchers), sandbox_(std::move(sandbox)) {
  ++watchers_->streams_[sandbox_];
}

Watchers::Room::~Room() {
  if (watchers_ == nullptr) return;
  const auto taken = watchers_->streams_.find(sandbox_);
  if (--taken->second == 0) watchers_->streams_.erase(taken);
}

Result<Watchers::Room> Watchers::take_room(const std::string& sandbox) {
  if (count_watches(sandbox) >= kWatchesPerSandboxMax) return too_many();
  return Room(*this, sandbox);
}

std::size_t Watchers::count_watches(const std::string& sandbox) const {
  const auto streams = streams_.find(sandbox);
  return count_sources(sandbox) + (streams == streams_.end() ? 0 : streams->second);
}

Task<> Watchers::read(Source& source) {
  while (!source.over) {
    auto change = co_await source.stream->next(loop_.now() + kLook);
    if (change) {
      source.add(std::move(*change));
    } else if (change.error().code != ErrorCode::kTimeout) {
      source.over = true;
    }
  }
}

Task<> Watchers::forget_idle() {
  for (;;) {
    co_await loop_.sleep_for(kLook);
    for (auto& [sandbox, of] : watchers_)
      std::erase_if(
          of, [&](const auto& entry) { return entry.second.asked + kForgetAfter < loop_.now(); });
    std::erase_if(watchers_, [](const auto& entry) { return entry.second.empty(); });
    drop_unused_sources();
  }
}

void Watchers::drop_unused_sources() {
  std::erase_if(sources_, [](const auto& entry) { return entry.second->users == 0; });
}

std::size_t Watchers::count_sources(const std::string& sandbox) const {
  std::size_t count = 0;
  for (auto at = sources_.lower_bound({.sandbox = sandbox});
       at != sources_.end() && at->first.sandbox == sandbox; ++at)
    ++count;
  return count;
}

Task<Result<std::string>> Watchers::create(Call& call, WatchedPlace place, bool include_entry) {
  if (watchers_[place.sandbox].size() >= kWatchersPerSandboxMax) co_return too_many();
  std::shared_ptr<Source> source;
  if (const auto found = sources_.find(place); found != sources_.end() && !found->second->over)
    source = found->second;
  if (source == nullptr) {
    if (count_sources(place.sandbox) >= kSourcesPerSandboxMax) co_return too_many();
    if (count_watches(place.sandbox) >= kWatchesPerSandboxMax) co_return too_many();
    source = std::make_shared<Source>(loop_);
    CO_TRY(source->stream, co_await call.awake([&] {
      return call.provider.watch_files(call.id(), place.path, kFileUser, place.recursive);
    }));
    sources_[place] = source;
    source->tasks.spawn(read(*source));
  }
  std::string id = random_text(26);
  auto [watcher, added] =
      watchers_[place.sandbox].try_emplace(id, std::move(source), place.path, include_entry);
  watcher->second.asked = loop_.now();
  co_return id;
}

Watchers::Watcher* Watchers::find(const std::string& sandbox, const std::string& id) {
  const auto of = watchers_.find(sandbox);
  if (of == watchers_.end()) return nullptr;
  const auto found = of->second.find(id);
  return found == of->second.end() ? nullptr : &found->second;
}

Result<Watchers::Taken> Watchers::take(const std::string& sandbox, const std::string& id) {
  Watcher* watcher = find(sandbox, id);
  if (watcher == nullptr) return no_such_watcher(id);
  watcher->asked = loop_.now();
  const Source& source = *watcher->source;
  Taken taken{.changes = {}, .path = watcher->path, .include_entry = watcher->include_entry};
  for (std::uint64_t i = std::max(watcher->at, source.first); i < source.end(); ++i)
    taken.changes.push_back(source.changes[i - source.first]);
  watcher->at = source.end();
  if (taken.changes.empty() && source.over) {
    TRY_VOID(remove(sandbox, id));
    return no_such_watcher(id);
  }
  return taken;
}

Result<void> Watchers::remove(const std::string& sandbox, const std::string& id) {
  if (find(sandbox, id) == nullptr) return no_such_watcher(id);
  watchers_[sandbox].erase(id);
  drop_unused_sources();
  return {};
}

}  // namespace pons::e2b
