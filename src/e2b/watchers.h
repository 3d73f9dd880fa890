#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "call.h"

namespace pons::e2b {

struct WatchedPlace {
  std::string sandbox;
  std::string path;
  bool recursive = false;
  auto operator<=>(const WatchedPlace&) const = default;
};

// Changes of directories. All who watch the same place share one watch in its sandbox, which begins
// anew when the way to it is cut. Some follow it; for others changes are kept until they are asked
// for, and who does not ask for an hour is forgotten.
class Watchers {
 public:
  Watchers(linux::Loop& loop, sandbox::Provider& provider);
  ~Watchers();

  // One who watches, from the moment on in which it is made. Must not outlive the Watchers.
  class Reader;
  // kLimit when the sandbox has too many watches.
  Task<Result<std::unique_ptr<Reader>>> follow(WatchedPlace place);

  // The new watcher's id. kLimit when the sandbox has too many.
  Task<Result<std::string>> create(WatchedPlace place, bool include_entry);
  struct Taken {
    std::vector<sandbox::FileChange> changes;
    std::string path;  // of the directory
    bool include_entry = false;
  };
  // What happened since the last time. kNotFound when the sandbox has no such watcher, or its
  // directory is gone.
  Result<Taken> take(const std::string& sandbox, const std::string& id);
  Result<void> remove(const std::string& sandbox, const std::string& id);

 private:
  struct Source;
  struct Watcher;
  using Of = std::map<std::string, Watcher, std::less<>>;

  Task<> watch(Source& source);
  Task<Result<void>> begin(Source& source);
  Task<Error> read(Source& source);
  Task<Error> reason_of_end(Source& source, Error error);
  Task<> forget_idle();
  void let_go(const Source& source);
  std::size_t count_sources(const std::string& sandbox) const;
  Watcher* find(const std::string& sandbox, const std::string& id);

  linux::Loop& loop_;
  sandbox::Provider& provider_;
  std::map<WatchedPlace, std::shared_ptr<Source>> sources_;
  std::map<std::string, Of, std::less<>> watchers_;  // by sandbox; they use the sources
  linux::TaskGroup tasks_;                           // last: its tasks use all of the above
};

class Watchers::Reader {
 public:
  Reader(Watchers& watchers, std::shared_ptr<Source> source);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader();

  // kTimeout when there is none until then, kNotFound when the directory is no more, kIo when
  // changes were not read in time. Of a sandbox that is gone an error of which is_gone() says yes.
  Task<Result<sandbox::FileChange>> next(TimePoint deadline);
  // All that there are by now; what was not read in time is missing at the beginning.
  std::vector<sandbox::FileChange> take();
  // Nothing comes any more.
  bool is_over() const;
  bool is_sandbox_gone() const;

 private:
  friend class Watchers;
  Watchers& watchers_;
  std::shared_ptr<Source> source_;
  std::uint64_t at_ = 0;  // the number of the next change
};

}  // namespace pons::e2b
