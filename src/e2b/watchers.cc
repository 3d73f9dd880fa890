#include "watchers.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "entry.h"
#include "pons/base/id.h"

namespace pons::e2b {

namespace {

constexpr std::size_t kWatchersPerSandboxMax = 2000;
// A user of a sandbox has 128 from the kernel, and its programs need some.
constexpr std::size_t kSourcesPerSandboxMax = 96;
constexpr std::size_t kKeptBytesMax = 1U << 20;  // of one place
constexpr std::size_t kKeptBytesFree = 64U << 10;
constexpr Duration kForgetAfter = std::chrono::hours(1);
constexpr Duration kLook = std::chrono::seconds(30);
constexpr Duration kOpenTime = std::chrono::seconds(30);
// As long as the warden may take to be there again.
constexpr int kBeginTries = 100;
constexpr Duration kBeginPause = std::chrono::milliseconds(250);
constexpr std::size_t kChangeBytes = 64;  // beside its path

Error too_many() {
  return make_error(ErrorCode::kLimit, "create watcher", "the sandbox has too many watchers");
}

Error no_such_watcher(const std::string& id) {
  return make_error(ErrorCode::kNotFound, "find watcher",
                    "watcher with id " + id.substr(0, 64) + " not found");
}

}  // namespace

// One watch in the sandbox. Its changes are numbered; those that all have read go when there are
// some, and the oldest when there are too many.
struct Watchers::Source {
  Source(linux::Loop& loop, WatchedPlace p) : place(std::move(p)), changed(loop), tasks(loop) {}
  const WatchedPlace place;
  std::unique_ptr<sandbox::ChangeStream> stream;
  std::deque<sandbox::FileChange> changes;
  std::uint64_t first = 0;
  std::size_t bytes = 0;
  std::set<const Reader*> readers;
  bool has_begun = false;
  int cuts = 0;               // since the last change
  std::optional<Error> over;  // why nothing comes any more
  linux::Event changed;
  linux::TaskGroup tasks;  // last: its task uses all of the above

  std::uint64_t end() const { return first + changes.size(); }

  void drop_first() {
    bytes -= changes.front().path.size() + kChangeBytes;
    changes.pop_front();
    ++first;
  }

  void add(sandbox::FileChange change) {
    bytes += change.path.size() + kChangeBytes;
    changes.push_back(std::move(change));
    if (bytes > kKeptBytesFree) {
      std::uint64_t read = end();
      for (const Reader* reader : readers) read = std::min(read, reader->at_);
      while (first < read) drop_first();
    }
    while (bytes > kKeptBytesMax) drop_first();
    changed.set();
  }
};

// ---- who reads

struct Watchers::Watcher {
  std::unique_ptr<Reader> reader;
  std::string path;
  bool include_entry = false;
  TimePoint asked{};
};

Watchers::Reader::Reader(Watchers& watchers, std::shared_ptr<Source> source)
    : watchers_(watchers), source_(std::move(source)), at_(source_->end()) {
  source_->readers.insert(this);
}

Watchers::Reader::~Reader() {
  source_->readers.erase(this);
  if (source_->readers.empty()) watchers_.let_go(*source_);
}

bool Watchers::Reader::is_over() const {
  return source_->over.has_value();
}

bool Watchers::Reader::is_sandbox_gone() const {
  return source_->over && is_gone(*source_->over);
}

Task<Result<sandbox::FileChange>> Watchers::Reader::next(TimePoint deadline) {
  while (at_ == source_->end()) {
    if (source_->over) co_return *source_->over;
    source_->changed.reset();
    if (co_await source_->changed.wait(deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "watch directory", "nothing happened meanwhile");
  }
  if (at_ < source_->first)
    co_return make_error(ErrorCode::kIo, "watch directory",
                         "changes were not read in time, and are lost; watch again");
  co_return source_->changes[at_++ - source_->first];
}

std::vector<sandbox::FileChange> Watchers::Reader::take() {
  at_ = std::max(at_, source_->first);
  const auto begin = source_->changes.begin() + static_cast<std::ptrdiff_t>(at_ - source_->first);
  at_ = source_->end();
  return {begin, source_->changes.end()};
}

// ---- what is watched

Watchers::Watchers(linux::Loop& loop, sandbox::Provider& provider)
    : loop_(loop), provider_(provider), tasks_(loop) {
  tasks_.spawn(forget_idle());
}

Watchers::~Watchers() = default;

Task<> Watchers::watch(Source& source) {
  std::optional<Error> why;
  while (!why) {
    auto begun = co_await begin(source);
    if (!begun) {
      why = std::move(begun).error();
      break;
    }
    source.has_begun = true;
    source.changed.set();
    Error cut = co_await read(source);
    if (cut.code == ErrorCode::kNotFound || ++source.cuts == kBeginTries) why = std::move(cut);
    if (!why) co_await loop_.sleep_for(kBeginPause);
  }
  source.over = co_await reason_of_end(source, *std::move(why));
  source.changed.set();
}

// The first time whoever asks for it waits, and asks again if need be.
Task<Result<void>> Watchers::begin(Source& source) {
  const WatchedPlace& place = source.place;
  for (int i = 1;; ++i) {
    auto stream =
        co_await provider_.watch_files(place.sandbox, place.path, kFileUser, place.recursive);
    if (stream) {
      source.stream = std::move(*stream);
      co_return {};
    }
    if (!source.has_begun || stream.error().code != ErrorCode::kUnavailable || i == kBeginTries)
      co_return std::move(stream).error();
    co_await loop_.sleep_for(kBeginPause);
  }
}

Task<Error> Watchers::read(Source& source) {
  for (;;) {
    auto change = co_await source.stream->next(loop_.now() + kLook);
    if (change) {
      source.cuts = 0;
      source.add(std::move(*change));
    } else if (change.error().code != ErrorCode::kTimeout) {
      co_return std::move(change).error();
    }
  }
}

// That a directory is not there says nothing while its sandbox is not there, either.
Task<Error> Watchers::reason_of_end(Source& source, Error error) {
  if (!source.has_begun) co_return error;
  if (error.code == ErrorCode::kNotFound) {
    const auto info = co_await provider_.inspect(source.place.sandbox);
    if (info && info->state != sandbox::State::kEnded) co_return error;
  }
  co_return gone_error(source.place.sandbox);
}

void Watchers::let_go(const Source& source) {
  const auto found = sources_.find(source.place);
  if (found != sources_.end() && found->second.get() == &source) sources_.erase(found);
}

std::size_t Watchers::count_sources(const std::string& sandbox) const {
  std::size_t count = 0;
  for (auto at = sources_.lower_bound({.sandbox = sandbox});
       at != sources_.end() && at->first.sandbox == sandbox; ++at)
    ++count;
  return count;
}

Task<Result<std::unique_ptr<Watchers::Reader>>> Watchers::follow(WatchedPlace place) {
  const auto found = sources_.find(place);
  std::shared_ptr<Source> source = found == sources_.end() ? nullptr : found->second;
  if (source == nullptr || source->over) {
    if (source == nullptr && count_sources(place.sandbox) >= kSourcesPerSandboxMax)
      co_return too_many();
    source = std::make_shared<Source>(loop_, place);
    sources_[place] = source;
    source->tasks.spawn(watch(*source));
  }
  auto reader = std::make_unique<Reader>(*this, source);
  const TimePoint deadline = loop_.now() + kOpenTime;
  while (!source->has_begun && !source->over) {
    source->changed.reset();
    if (co_await source->changed.wait(deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "watch directory", "the sandbox did not answer");
  }
  if (source->over) co_return *source->over;
  reader->at_ = source->end();
  co_return std::move(reader);
}

// ---- who asks from time to time

Task<> Watchers::forget_idle() {
  for (;;) {
    co_await loop_.sleep_for(kLook);
    for (auto& [sandbox, of] : watchers_)
      std::erase_if(of, [&](const auto& entry) {
        return entry.second.asked + kForgetAfter < loop_.now() ||
               entry.second.reader->is_sandbox_gone();
      });
    std::erase_if(watchers_, [](const auto& entry) { return entry.second.empty(); });
  }
}

Task<Result<std::string>> Watchers::create(WatchedPlace place, bool include_entry) {
  if (watchers_[place.sandbox].size() >= kWatchersPerSandboxMax) co_return too_many();
  CO_TRY(auto reader, co_await follow(place));
  std::string id = random_text(26);
  watchers_[place.sandbox].try_emplace(id, Watcher{.reader = std::move(reader),
                                                   .path = place.path,
                                                   .include_entry = include_entry,
                                                   .asked = loop_.now()});
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
  Taken taken{.changes = watcher->reader->take(),
              .path = watcher->path,
              .include_entry = watcher->include_entry};
  if (taken.changes.empty() && watcher->reader->is_over()) {
    TRY_VOID(remove(sandbox, id));
    return no_such_watcher(id);
  }
  return taken;
}

Result<void> Watchers::remove(const std::string& sandbox, const std::string& id) {
  if (find(sandbox, id) == nullptr) return no_such_watcher(id);
  watchers_[sandbox].erase(id);
  return {};
}

}  // namespace pons::e2b
